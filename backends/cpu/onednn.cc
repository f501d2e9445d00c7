// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/onednn.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "backends/cpu/onednn_call.h"
#include "backends/cpu/scratch.h"
#include "mtf/check.h"
#include "mtf/status.h"

namespace mtf::cpu::onednn {
namespace {

dnnl_status_t AppendSum(dnnl_post_ops_t ops) {
#if DNNL_VERSION_MAJOR >= 3
  return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
#else
  return dnnl_post_ops_append_sum(ops, 1.0f);
#endif
}

dnnl_status_t DescribeMatmul(const MemoryDesc& x, const MemoryDesc& y,
                             const MemoryDesc& z, dnnl_primitive_attr_t attr,
                             dnnl_primitive_desc_t* out) {
#if DNNL_VERSION_MAJOR >= 3
  return dnnl_matmul_primitive_desc_create(out, Engine(), x.get(), y.get(),
                                           nullptr, z.get(), attr);
#else
  dnnl_matmul_desc_t desc;
  const dnnl_status_t status =
      dnnl_matmul_desc_init(&desc, x.get(), y.get(), nullptr, z.get());
  if (status != dnnl_success) return status;
  return dnnl_primitive_desc_create(out, &desc, attr, Engine(), nullptr);
#endif
}

// A matrix of `rows` by `columns` after its batch dimensions; a batch dimension
// that the operand lacks has size 1 and is broadcast. Strides of dimensions of
// size 1 have no effect, but the library recognises dense matrices by them.
MatrixLayout LayoutOf(const std::vector<EinsumLoop>& batch,
                      int64_t EinsumLoop::*stride, int64_t rows,
                      int64_t row_stride, int64_t columns,
                      int64_t column_stride) {
  if (columns == 1 && rows == 1) {
    row_stride = column_stride = 1;
  } else if (columns == 1) {
    column_stride = row_stride == 1 ? rows : 1;
  } else if (rows == 1) {
    row_stride = column_stride == 1 ? columns : 1;
  }
  MatrixLayout layout;
  for (const EinsumLoop& loop : batch) {
    const bool present = loop.*stride != 0;
    layout.sizes.push_back(present ? loop.extent : 1);
    layout.strides.push_back(present ? loop.*stride : rows * columns);
  }
  layout.sizes.insert(layout.sizes.end(), {rows, columns});
  layout.strides.insert(layout.strides.end(), {row_stride, column_stride});
  return layout;
}

class MatmulPrimitive : public Primitive {
 public:
  absl::Status Init(const MatmulSpec& spec, Packs packs);

  void Run(const void* x, const void* y, void* z) override {
    char* scratch = static_cast<char*>(
        ThreadScratch(ScratchUse::kMatmul, packed_bytes_ + scratchpad_bytes_));
    char* scratchpad = scratch + packed_bytes_;
    if (packed_bytes_ > 0) {
      const void*& packed = packs_x_ ? x : y;
      pack_.Run({scratchpad, packed, scratch});
      packed = scratch;
    }
    matmul_.Run({scratchpad, x, y, z});
  }

  const std::string& implementation() const override { return implementation_; }

 private:
  // Prepares a copy of an operand to the memory layout that the matmul reads.
  template <class Desc>
  absl::Status InitPack(const MemoryDesc& from, const Desc* to);

  Call matmul_, pack_;
  bool packs_x_ = false;
  int64_t packed_bytes_ = 0, scratchpad_bytes_ = 0;
  std::string implementation_;
};

dnnl_data_type_t TypeOf(DType dtype) {
  return dtype == kBFloat16 ? dnnl_bf16 : dnnl_f32;
}

template <class Desc>
absl::Status MatmulPrimitive::InitPack(const MemoryDesc& from, const Desc* to) {
  Attributes plain;
  MTF_RETURN_IF_ERROR(plain.Init());
  MTF_RETURN_IF_DNNL_ERROR(dnnl_reorder_primitive_desc_create(
      pack_.desc(), from.get(), Engine(), to, Engine(), plain.attr));
  MTF_RETURN_IF_ERROR(pack_.Init());
  MTF_RETURN_IF_ERROR(pack_.AddArgument(DNNL_ARG_FROM, from.get()));
  MTF_RETURN_IF_ERROR(pack_.AddArgument(DNNL_ARG_TO, to));
  packed_bytes_ = (dnnl_memory_desc_get_size(to) + 63) / 64 * 64;
  scratchpad_bytes_ = std::max(scratchpad_bytes_, pack_.scratchpad_bytes());
  return absl::OkStatus();
}

absl::Status MatmulPrimitive::Init(const MatmulSpec& spec, Packs packs) {
  packs_x_ = packs == Packs::kX;
  const dnnl_data_type_t type = TypeOf(spec.dtype);
  const MatrixLayout y_layout =
      LayoutOf(spec.batch, &EinsumLoop::y, spec.k.extent, spec.k.y,
               spec.n.extent, spec.n.y);
  MemoryDesc x, rows_of_x, y, any_y, z;
  MTF_RETURN_IF_DNNL_ERROR(
      x.Init(type, LayoutOf(spec.batch, &EinsumLoop::x, spec.m.extent, spec.m.x,
                            spec.k.extent, spec.k.x)));
  MTF_RETURN_IF_DNNL_ERROR(
      rows_of_x.Init(type, LayoutOf(spec.batch, &EinsumLoop::x, spec.m.extent,
                                    spec.k.extent, spec.k.extent, 1)));
  MTF_RETURN_IF_DNNL_ERROR(y.Init(type, y_layout));
  MTF_RETURN_IF_DNNL_ERROR(any_y.InitAny(type, y_layout));
  MTF_RETURN_IF_DNNL_ERROR(
      z.Init(TypeOf(spec.result_dtype()),
             LayoutOf(spec.batch, &EinsumLoop::z, spec.m.extent, spec.m.z,
                      spec.n.extent, spec.n.z)));
  Attributes attributes;
  MTF_RETURN_IF_ERROR(attributes.Init());
  if (spec.accumulate) {
    MTF_RETURN_IF_DNNL_ERROR(dnnl_post_ops_create(&attributes.ops));
    MTF_RETURN_IF_DNNL_ERROR(AppendSum(attributes.ops));
    MTF_RETURN_IF_DNNL_ERROR(
        dnnl_primitive_attr_set_post_ops(attributes.attr, attributes.ops));
  }
  dnnl_primitive_desc_t* desc = matmul_.desc();
  MTF_RETURN_IF_DNNL_ERROR(DescribeMatmul(packs_x_ ? rows_of_x : x,
                                          packs == Packs::kY ? any_y : y, z,
                                          attributes.attr, desc));
  const char* name = nullptr;
  MTF_RETURN_IF_DNNL_ERROR(
      dnnl_primitive_desc_query(*desc, dnnl_query_impl_info_str, 0, &name));
  implementation_ = name;
  if (absl::StartsWith(implementation_, "ref")) {
    return absl::UnimplementedError(
        absl::StrCat("oneDNN has only reference code for a matmul of ",
                     DTypeName(spec.dtype)));
  }
  MTF_RETURN_IF_ERROR(matmul_.Init());
  const auto* used_y =
      dnnl_primitive_desc_query_md(*desc, dnnl_query_weights_md, 0);
  MTF_RETURN_IF_ERROR(
      matmul_.AddArgument(DNNL_ARG_SRC, packs_x_ ? rows_of_x.get() : x.get()));
  MTF_RETURN_IF_ERROR(matmul_.AddArgument(DNNL_ARG_WEIGHTS, used_y));
  MTF_RETURN_IF_ERROR(matmul_.AddArgument(DNNL_ARG_DST, z.get()));
  scratchpad_bytes_ = matmul_.scratchpad_bytes();
  if (packs_x_) return InitPack(x, rows_of_x.get());
  if (dnnl_memory_desc_equal(used_y, y.get())) return absl::OkStatus();
  return InitPack(y, used_y);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Primitive>> Primitive::Create(
    const MatmulSpec& spec, Packs packs) {
  auto primitive = std::make_unique<MatmulPrimitive>();
  MTF_RETURN_IF_ERROR(primitive->Init(spec, packs));
  return primitive;
}

void Sgemm(int64_t m, int64_t n, int64_t k, const float* x, const Matrix& x_in,
           const float* y, const Matrix& y_in, bool accumulate, float* z,
           int64_t z_leading) {
  const dnnl_status_t status = dnnl_sgemm(
      x_in.transposed ? 'T' : 'N', y_in.transposed ? 'T' : 'N', m, n, k, 1.0f,
      x, x_in.leading, y, y_in.leading, accumulate ? 1.0f : 0.0f, z, z_leading);
  MTF_CHECK(status == dnnl_success)
      << DnnlError("dnnl_sgemm", status).ToString();
}

}  // namespace mtf::cpu::onednn
