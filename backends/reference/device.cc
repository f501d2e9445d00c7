// SPDX-License-Identifier: Apache-2.0
#include "backends/reference/device.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "backends/reference/device_kernels.h"
#include "mtf/check.h"
#include "mtf/host_tensor.h"

namespace mtf::reference {

void ForEach(const std::vector<int64_t>& extents,
             const std::function<void(const Coordinates&)>& body) {
  for (int64_t extent : extents) {
    if (extent == 0) return;
  }
  Coordinates at(extents.size(), 0);
  while (true) {
    body(at);
    int i = static_cast<int>(extents.size()) - 1;
    for (; i >= 0 && ++at[i] == extents[i]; --i) at[i] = 0;
    if (i < 0) return;
  }
}

std::vector<int64_t> Frame::Extents() const {
  std::vector<int64_t> extents;
  for (const ShardedDimension& dim : dims) extents.push_back(dim.extent);
  return extents;
}

bool Frame::IsValid(const Coordinates& at) const {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (at[i] >= dims[i].valid) return false;
  }
  return true;
}

int64_t Frame::Offset(const Coordinates& at) const {
  int64_t offset = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    offset = offset * dims[i].extent + at[i];
  }
  return offset;
}

int64_t Frame::GlobalIndex(const Coordinates& at) const {
  int64_t index = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    index = index * shape[static_cast<int>(i)].size + dims[i].offset + at[i];
  }
  return index;
}

Coordinates Frame::From(const Frame& other, const Coordinates& at) const {
  Coordinates here(dims.size(), 0);
  for (size_t i = 0; i < dims.size(); ++i) {
    const int there = other.shape.Find(shape[static_cast<int>(i)].name);
    if (there >= 0) here[i] = at[there];
  }
  return here;
}

Projection::Projection(const Frame& value, const Frame& space) {
  int64_t elements = 1;
  for (int i = value.shape.rank() - 1; i >= 0; --i) {
    const int dim = space.shape.Find(value.shape[i].name);
    if (dim >= 0) strides_.push_back({dim, elements});
    elements *= value.dims[i].extent;
  }
}

int64_t Projection::Offset(const Coordinates& at) const {
  int64_t offset = 0;
  for (const Stride& stride : strides_) {
    offset += at[stride.dim] * stride.elements;
  }
  return offset;
}

int FindDim(const BoundValue& value, const std::string& name) {
  const int dim = value.value->shape.Find(name);
  MTF_CHECK_LE(0, dim) << name;
  return dim;
}

Number Load(const BoundValue& value, int64_t offset) {
  if (value.dtype() == kInt64) {
    return static_cast<const int64_t*>(value.data)[offset];
  }
  return LoadElement(value.data, value.dtype(), offset);
}

void Store(const BoundValue& value, int64_t offset, Number x) {
  // Sums and casts have already made `x` an integer.
  if (value.dtype() == kInt64 && x >= -0x1p63L && x < 0x1p63L) {
    static_cast<int64_t*>(value.data)[offset] = static_cast<int64_t>(x);
    return;
  }
  StoreElement(value.data, value.dtype(), offset, static_cast<double>(x));
}

namespace {

class BodyKernel : public Kernel {
 public:
  explicit BodyKernel(Body body) : body_(std::move(body)) {}
  void Run(StepContext& context) override { body_(context); }

 private:
  Body body_;
};

class ReferenceDevice : public Device {
 public:
  absl::string_view name() const override { return "reference"; }

  AttentionSupport attention() const override { return AttentionSupport::kAll; }

  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    const size_t rounded = (static_cast<size_t>(bytes) + 64) / 64 * 64;
    void* data = std::aligned_alloc(64, rounded);
    if (data == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no memory for a buffer of ", bytes, " bytes"));
    }
    std::memset(data, 0, rounded);
    return data;
  }
  void Free(void* data) override { std::free(data); }

  absl::Status CopyToDevice(void* to, const void* from,
                            int64_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }
  absl::Status CopyToHost(void* to, const void* from, int64_t bytes) override {
    return CopyToDevice(to, from, bytes);
  }

  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(
      const Binding& binding) override {
    const auto make = [&](Body (*maker)(const Binding&)) {
      return std::make_unique<BodyKernel>(maker(binding));
    };
    const Opcode opcode = binding.instruction().opcode;
    switch (opcode) {
      case Opcode::kConstant:
        return make(MakeConstant);
      case Opcode::kRandom:
        return make(MakeRandom);
      case Opcode::kMap:
        return make(MakeMap);
      case Opcode::kEinsum:
        return make(MakeEinsum);
      case Opcode::kReduce:
        return make(MakeReduce);
      case Opcode::kReshape:
        return make(MakeReshape);
      case Opcode::kSlice:
        return make(MakeSlice);
      case Opcode::kPad:
        return make(MakePad);
      case Opcode::kConcat:
        return make(MakeConcat);
      case Opcode::kTakeRows:
      case Opcode::kPlaceRows:
        return make(MakeRows);
      case Opcode::kWindows:
        return make(MakeWindows);
      case Opcode::kFoldWindows:
        return make(MakeFoldWindows);
      case Opcode::kGather:
        return make(MakeGather);
      case Opcode::kScatterAdd:
        return make(MakeScatterAdd);
      case Opcode::kCheckIndex:
        return make(MakeCheckIndex);
      case Opcode::kDynamicSlice:
        return make(MakeDynamicSlice);
      case Opcode::kUpdateSlice:
        return make(MakeUpdateSlice);
      case Opcode::kScan:
        return make(MakeScan);
      case Opcode::kReduceBlocks:
        return make(MakeReduceBlocks);
      case Opcode::kTopK:
        return make(MakeTopK);
      case Opcode::kAttention:
        return make(MakeAttention);
      case Opcode::kAttentionGradient:
        return make(MakeAttentionGradient);
      case Opcode::kMask:
        return make(MakeMask);
      case Opcode::kAllSlice:
        return make(MakeAllSlice);
      default:
        break;
    }
    return absl::UnimplementedError(absl::StrCat(
        "device \"reference\" has no kernel for ", OpcodeName(opcode)));
  }

  std::unique_ptr<Kernel> PrepareCopy(void* to, const void* from,
                                      const BlockCopy& copy) override {
    return std::make_unique<BodyKernel>([=](StepContext&) {
      for (int64_t o = 0; o < copy.outer; ++o) {
        for (int64_t b = 0; b < copy.blocks; ++b) {
          const int64_t read = o * copy.from_outer + b * copy.from_block;
          const int64_t write = o * copy.to_outer + b * copy.to_block;
          for (int64_t i = 0; i < copy.inner; ++i) {
            static_cast<char*>(to)[write + i] =
                static_cast<const char*>(from)[read + i];
          }
        }
      }
    });
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> CreateDevice(const DeviceOptions&) {
  return std::make_unique<ReferenceDevice>();
}

}  // namespace mtf::reference
