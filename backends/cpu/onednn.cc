// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/onednn.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "backends/cpu/scratch.h"
#include "mtf/check.h"
#include "mtf/status.h"
#include "oneapi/dnnl/dnnl.h"

// Returns a Status with the name of the call and its error code.
#define MTF_RETURN_IF_DNNL_ERROR(call)            \
  do {                                            \
    const dnnl_status_t mtf_dnnl_status = (call); \
    if (mtf_dnnl_status != dnnl_success)          \
      return DnnlError(#call, mtf_dnnl_status);   \
  } while (false)

namespace mtf::cpu::onednn {
namespace {

absl::Status DnnlError(absl::string_view call, dnnl_status_t status) {
  const std::string text =
      absl::StrCat("oneDNN: ", call, " failed with code ", status);
  switch (status) {
    case dnnl_unimplemented:
      return absl::UnimplementedError(text);
    case dnnl_out_of_memory:
      return absl::ResourceExhaustedError(text);
    default:
      return absl::InternalError(text);
  }
}

// Each kernel creates its primitives once; the cache lets instructions of one
// shape share generated code.
constexpr int kPrimitiveCache = 4096;

dnnl_engine_t Engine() {
  static const dnnl_engine_t engine = [] {
    dnnl_engine_t made = nullptr;
    MTF_CHECK_EQ(dnnl_engine_create(&made, dnnl_cpu, 0), dnnl_success);
    dnnl_set_primitive_cache_capacity(kPrimitiveCache);
    return made;
  }();
  return engine;
}

dnnl_stream_t Stream() {
  struct Holder {
    dnnl_stream_t stream = nullptr;
    Holder() {
      MTF_CHECK_EQ(
          dnnl_stream_create(&stream, Engine(), dnnl_stream_default_flags),
          dnnl_success);
    }
    ~Holder() { dnnl_stream_destroy(stream); }
  };
  static thread_local Holder holder;
  return holder.stream;
}

// The memory layout of a batched matrix: sizes and strides of the batch
// dimensions, outermost first, then of rows and columns.
struct MatrixLayout {
  std::vector<dnnl_dim_t> sizes, strides;
};

#if DNNL_VERSION_MAJOR >= 3
struct MemoryDesc {
  dnnl_memory_desc_t desc = nullptr;
  ~MemoryDesc() {
    if (desc != nullptr) dnnl_memory_desc_destroy(desc);
  }
  dnnl_status_t Init(dnnl_data_type_t type, const MatrixLayout& layout) {
    return dnnl_memory_desc_create_with_strides(
        &desc, static_cast<int>(layout.sizes.size()), layout.sizes.data(), type,
        layout.strides.data());
  }
  dnnl_status_t InitAny(dnnl_data_type_t type, const MatrixLayout& layout) {
    return dnnl_memory_desc_create_with_tag(
        &desc, static_cast<int>(layout.sizes.size()), layout.sizes.data(), type,
        dnnl_format_tag_any);
  }
  const_dnnl_memory_desc_t get() const { return desc; }
};
#else
struct MemoryDesc {
  dnnl_memory_desc_t desc;
  dnnl_status_t Init(dnnl_data_type_t type, const MatrixLayout& layout) {
    return dnnl_memory_desc_init_by_strides(
        &desc, static_cast<int>(layout.sizes.size()), layout.sizes.data(), type,
        layout.strides.data());
  }
  dnnl_status_t InitAny(dnnl_data_type_t type, const MatrixLayout& layout) {
    return dnnl_memory_desc_init_by_tag(
        &desc, static_cast<int>(layout.sizes.size()), layout.sizes.data(), type,
        dnnl_format_tag_any);
  }
  const dnnl_memory_desc_t* get() const { return &desc; }
};
#endif

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

// A primitive of the library with its memory objects.
class Call {
 public:
  Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    for (const dnnl_exec_arg_t& argument : arguments_) {
      dnnl_memory_destroy(argument.memory);
    }
    if (primitive_ != nullptr) dnnl_primitive_destroy(primitive_);
    if (desc_ != nullptr) dnnl_primitive_desc_destroy(desc_);
  }

  // Filled in by the caller before Init.
  dnnl_primitive_desc_t* desc() { return &desc_; }

  absl::Status Init() {
    MTF_RETURN_IF_DNNL_ERROR(dnnl_primitive_create(&primitive_, desc_));
    const auto* scratchpad =
        dnnl_primitive_desc_query_md(desc_, dnnl_query_scratchpad_md, 0);
    scratchpad_bytes_ = dnnl_memory_desc_get_size(scratchpad);
    return AddArgument(DNNL_ARG_SCRATCHPAD, scratchpad);
  }

  template <class Desc>
  absl::Status AddArgument(int argument, const Desc* desc) {
    dnnl_memory_t memory = nullptr;
    MTF_RETURN_IF_DNNL_ERROR(
        dnnl_memory_create(&memory, desc, Engine(), DNNL_MEMORY_NONE));
    arguments_.push_back({argument, memory});
    return absl::OkStatus();
  }

  int64_t scratchpad_bytes() const { return scratchpad_bytes_; }

  // `data` is in the order in which arguments were added, the scratchpad first.
  void Run(std::initializer_list<const void*> data) {
    const void* const* at = data.begin();
    for (const dnnl_exec_arg_t& argument : arguments_) {
      dnnl_memory_set_data_handle(argument.memory, const_cast<void*>(*at++));
    }
    const dnnl_status_t status = dnnl_primitive_execute(
        primitive_, Stream(), static_cast<int>(arguments_.size()),
        arguments_.data());
    MTF_CHECK(status == dnnl_success)
        << DnnlError("dnnl_primitive_execute", status).ToString();
  }

 private:
  dnnl_primitive_desc_t desc_ = nullptr;
  dnnl_primitive_t primitive_ = nullptr;
  std::vector<dnnl_exec_arg_t> arguments_;
  int64_t scratchpad_bytes_ = 0;
};

class MatmulPrimitive : public Primitive {
 public:
  absl::Status Init(const MatmulSpec& spec, bool packs_y);

  void Run(const void* x, const void* y, void* z) override {
    char* scratch = static_cast<char*>(
        ThreadScratch(ScratchUse::kMatmul, packed_bytes_ + scratchpad_bytes_));
    char* scratchpad = scratch + packed_bytes_;
    if (packed_bytes_ > 0) {
      pack_.Run({scratchpad, y, scratch});
      y = scratch;
    }
    matmul_.Run({scratchpad, x, y, z});
  }

  const std::string& implementation() const override { return implementation_; }

 private:
  Call matmul_, pack_;
  int64_t packed_bytes_ = 0, scratchpad_bytes_ = 0;
  std::string implementation_;
};

dnnl_data_type_t TypeOf(DType dtype) {
  return dtype == kBFloat16 ? dnnl_bf16 : dnnl_f32;
}

absl::Status MatmulPrimitive::Init(const MatmulSpec& spec, bool packs_y) {
  const dnnl_data_type_t type = TypeOf(spec.dtype);
  const MatrixLayout y_layout =
      LayoutOf(spec.batch, &EinsumLoop::y, spec.k.extent, spec.k.y,
               spec.n.extent, spec.n.y);
  MemoryDesc x, y, any_y, z;
  MTF_RETURN_IF_DNNL_ERROR(
      x.Init(type, LayoutOf(spec.batch, &EinsumLoop::x, spec.m.extent, spec.m.x,
                            spec.k.extent, spec.k.x)));
  MTF_RETURN_IF_DNNL_ERROR(y.Init(type, y_layout));
  MTF_RETURN_IF_DNNL_ERROR(any_y.InitAny(type, y_layout));
  MTF_RETURN_IF_DNNL_ERROR(
      z.Init(TypeOf(spec.result_dtype()),
             LayoutOf(spec.batch, &EinsumLoop::z, spec.m.extent, spec.m.z,
                      spec.n.extent, spec.n.z)));
  struct Attributes {
    dnnl_primitive_attr_t attr = nullptr;
    dnnl_post_ops_t ops = nullptr;
    ~Attributes() {
      if (ops != nullptr) dnnl_post_ops_destroy(ops);
      if (attr != nullptr) dnnl_primitive_attr_destroy(attr);
    }
  } plain, attributes;
  for (Attributes* made : {&plain, &attributes}) {
    MTF_RETURN_IF_DNNL_ERROR(dnnl_primitive_attr_create(&made->attr));
    MTF_RETURN_IF_DNNL_ERROR(dnnl_primitive_attr_set_scratchpad_mode(
        made->attr, dnnl_scratchpad_mode_user));
  }
  if (spec.accumulate) {
    MTF_RETURN_IF_DNNL_ERROR(dnnl_post_ops_create(&attributes.ops));
    MTF_RETURN_IF_DNNL_ERROR(AppendSum(attributes.ops));
    MTF_RETURN_IF_DNNL_ERROR(
        dnnl_primitive_attr_set_post_ops(attributes.attr, attributes.ops));
  }
  dnnl_primitive_desc_t* desc = matmul_.desc();
  MTF_RETURN_IF_DNNL_ERROR(
      DescribeMatmul(x, packs_y ? any_y : y, z, attributes.attr, desc));
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
  MTF_RETURN_IF_ERROR(matmul_.AddArgument(DNNL_ARG_SRC, x.get()));
  MTF_RETURN_IF_ERROR(matmul_.AddArgument(DNNL_ARG_WEIGHTS, used_y));
  MTF_RETURN_IF_ERROR(matmul_.AddArgument(DNNL_ARG_DST, z.get()));
  scratchpad_bytes_ = matmul_.scratchpad_bytes();
  if (dnnl_memory_desc_equal(used_y, y.get())) return absl::OkStatus();
  MTF_RETURN_IF_DNNL_ERROR(dnnl_reorder_primitive_desc_create(
      pack_.desc(), y.get(), Engine(), used_y, Engine(), plain.attr));
  MTF_RETURN_IF_ERROR(pack_.Init());
  MTF_RETURN_IF_ERROR(pack_.AddArgument(DNNL_ARG_FROM, y.get()));
  MTF_RETURN_IF_ERROR(pack_.AddArgument(DNNL_ARG_TO, used_y));
  packed_bytes_ = (dnnl_memory_desc_get_size(used_y) + 63) / 64 * 64;
  scratchpad_bytes_ = std::max(scratchpad_bytes_, pack_.scratchpad_bytes());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Primitive>> Primitive::Create(
    const MatmulSpec& spec, bool packs_y) {
  auto primitive = std::make_unique<MatmulPrimitive>();
  MTF_RETURN_IF_ERROR(primitive->Init(spec, packs_y));
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
