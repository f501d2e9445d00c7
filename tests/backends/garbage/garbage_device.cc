// SPDX-License-Identifier: Apache-2.0
#include "tests/backends/garbage/garbage_device.h"

#include <algorithm>
#include <cstring>

#include "mtf/status.h"
#include "tests/matchers.h"

namespace mtf::testing {
namespace {

// A multiple of the alignment of buffers.
constexpr int64_t kAround = 1024;
// Programs of tests use less scratch memory in a kernel.
constexpr int64_t kScratchBytes = 16 << 10;

int64_t BytesOf(const BoundValue& value) {
  return value.elements() * DTypeSize(value.dtype());
}

bool Overlap(const BoundValue& x, const BoundValue& y) {
  const auto *a = static_cast<const char*>(x.data),
             *b = static_cast<const char*>(y.data);
  return a != nullptr && b != nullptr && a < b + BytesOf(y) &&
         b < a + BytesOf(x);
}

bool OverlapsAny(const BoundValue& x, const std::vector<BoundValue>& others) {
  return std::any_of(others.begin(), others.end(),
                     [&](const BoundValue& y) { return Overlap(x, y); });
}

// The offsets of the elements that are padding along a dimension whose padding
// is unknown, and along no other.
std::vector<int64_t> UnknownPadding(const PaddingFills& fills, int value,
                                    const BoundValue& bound) {
  const int rank = static_cast<int>(bound.dims.size());
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < bound.elements(); ++i) {
    bool unknown = false, known = false;
    int64_t rest = i;
    for (int d = rank - 1; d >= 0; --d) {
      const int64_t at = rest % bound.dims[d].extent;
      rest /= bound.dims[d].extent;
      if (at < bound.dims[d].valid) continue;
      (fills.PaddingIsUnknown(value, d) ? unknown : known) = true;
    }
    if (unknown && !known) offsets.push_back(i);
  }
  return offsets;
}

}  // namespace

class GarbageDevice::FillingKernel : public Kernel {
 public:
  FillingKernel(GarbageDevice& device, Memory memory,
                std::unique_ptr<Kernel> kernel)
      : device_(device),
        memory_(std::move(memory)),
        kernel_(std::move(kernel)) {}

  void Run(StepContext& context) override {
    EXPECT_OK(device_.Fill(memory_));
    kernel_->Run(context);
  }

 private:
  GarbageDevice& device_;
  const Memory memory_;
  const std::unique_ptr<Kernel> kernel_;
};

absl::StatusOr<std::unique_ptr<GarbageDevice>> GarbageDevice::Create(
    const std::string& name, Garbage garbage) {
  MTF_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                       CreateDeviceWithVisibleScratch(name));
  return std::unique_ptr<GarbageDevice>(
      new GarbageDevice(std::move(device), garbage));
}

absl::StatusOr<void*> GarbageDevice::Allocate(int64_t bytes) {
  MTF_ASSIGN_OR_RETURN(void* const memory,
                       ForwardingDevice::Allocate(bytes + 2 * kAround));
  const std::vector<char> garbage = NextGarbage(kFloat32, bytes + 2 * kAround);
  MTF_RETURN_IF_ERROR(CopyToDevice(memory, garbage.data(),
                                   static_cast<int64_t>(garbage.size())));
  void* const data = static_cast<char*>(memory) + kAround;
  allocations_[data] = {bytes,
                        {garbage.begin(), garbage.begin() + kAround},
                        {garbage.end() - kAround, garbage.end()}};
  return data;
}

void GarbageDevice::Free(void* data) {
  const auto found = allocations_.find(data);
  ASSERT_NE(found, allocations_.end());
  const auto& [bytes, before, behind] = found->second;
  char* const memory = static_cast<char*>(data) - kAround;
  std::vector<char> now(kAround);
  EXPECT_OK(CopyToHost(now.data(), memory, kAround));
  EXPECT_TRUE(now == before) << "written before a buffer";
  EXPECT_OK(CopyToHost(now.data(), memory + kAround + bytes, kAround));
  EXPECT_TRUE(now == behind) << "written past the end of a buffer";
  ForwardingDevice::Free(memory);
  allocations_.erase(found);
}

const PaddingFills& GarbageDevice::FillsOf(const Program& program) {
  std::unique_ptr<PaddingFills>& fills = fills_[&program];
  if (fills == nullptr) {
    fills = std::make_unique<PaddingFills>(program);
    for (const Instruction& instruction : program.instructions) {
      fills->Propagate(instruction);
    }
  }
  return *fills;
}

GarbageDevice::Memory GarbageDevice::MemoryOf(
    absl::Span<const Binding> bindings) {
  const PaddingFills& fills = FillsOf(*bindings[0].program);
  Memory memory;
  std::vector<BoundValue> operands, results;
  for (const Binding& binding : bindings) {
    for (size_t i = 0; i < binding.operands.size(); ++i) {
      const BoundValue& operand = binding.operands[i];
      // Written by an earlier member of the group, or not in memory. An operand
      // whose memory an earlier member's result takes is read before that.
      const bool is_result = std::any_of(results.begin(), results.end(),
                                         [&](const BoundValue& result) {
                                           return result.value == operand.value;
                                         });
      if (operand.data == nullptr || is_result) continue;
      operands.push_back(operand);
      std::vector<int64_t> offsets =
          UnknownPadding(fills, binding.instruction().operands[i], operand);
      if (offsets.empty()) continue;
      memory.padding.push_back({operand, std::move(offsets)});
    }
    results.insert(results.end(), binding.results.begin(),
                   binding.results.end());
  }
  for (const BoundValue& result : results) {
    if (result.data == nullptr || OverlapsAny(result, operands)) continue;
    memory.results.push_back({result.data, BytesOf(result)});
  }
  return memory;
}

absl::Status GarbageDevice::Fill(const Memory& memory) {
  for (const auto& [data, bytes] : memory.results) {
    MTF_RETURN_IF_ERROR(
        CopyToDevice(data, NextGarbage(kFloat32, bytes).data(), bytes));
  }
  for (const auto& [operand, offsets] : memory.padding) {
    const int64_t bytes = BytesOf(operand), size = DTypeSize(operand.dtype());
    const std::vector<char> garbage = NextGarbage(operand.dtype(), bytes);
    std::vector<char> now(bytes);
    MTF_RETURN_IF_ERROR(CopyToHost(now.data(), operand.data, bytes));
    for (int64_t i : offsets) {
      std::memcpy(&now[i * size], &garbage[i * size], size);
    }
    MTF_RETURN_IF_ERROR(CopyToDevice(operand.data, now.data(), bytes));
  }
  return scratch_.Fill(*this, garbage_, kScratchBytes);
}

absl::StatusOr<std::unique_ptr<Kernel>> GarbageDevice::Prepare(
    const Binding& binding) {
  MTF_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, scratch_.Watch([&] {
    return ForwardingDevice::Prepare(binding);
  }));
  return std::make_unique<FillingKernel>(*this, MemoryOf({&binding, 1}),
                                         std::move(kernel));
}

absl::StatusOr<std::unique_ptr<Kernel>> GarbageDevice::PrepareGroup(
    const FusedGroup& group, absl::Span<const Binding> members) {
  MTF_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, scratch_.Watch([&] {
    return ForwardingDevice::PrepareGroup(group, members);
  }));
  if (kernel == nullptr) return kernel;
  ++groups_;
  return std::make_unique<FillingKernel>(*this, MemoryOf(members),
                                         std::move(kernel));
}

}  // namespace mtf::testing
