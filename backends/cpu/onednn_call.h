// SPDX-License-Identifier: Apache-2.0
//
// What calls of oneDNN share: errors, the engine, descriptions of memory and
// primitives. For onednn.cc and onednn_convolution.cc, which alone include the
// library.
#ifndef BACKENDS_CPU_ONEDNN_CALL_H_
#define BACKENDS_CPU_ONEDNN_CALL_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
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

inline absl::Status DnnlError(absl::string_view call, dnnl_status_t status) {
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
inline constexpr int kPrimitiveCache = 4096;

inline dnnl_engine_t Engine() {
  static const dnnl_engine_t engine = [] {
    dnnl_engine_t made = nullptr;
    MTF_CHECK_EQ(dnnl_engine_create(&made, dnnl_cpu, 0), dnnl_success);
    dnnl_set_primitive_cache_capacity(kPrimitiveCache);
    return made;
  }();
  return engine;
}

inline dnnl_stream_t Stream() {
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
// dimensions, outermost first, then of rows and columns. Convolutions describe
// their images and filters with it, too.
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

// The attributes of a primitive whose caller provides the scratchpad.
struct Attributes {
  dnnl_primitive_attr_t attr = nullptr;
  dnnl_post_ops_t ops = nullptr;

  Attributes() = default;
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  ~Attributes() {
    if (ops != nullptr) dnnl_post_ops_destroy(ops);
    if (attr != nullptr) dnnl_primitive_attr_destroy(attr);
  }
  absl::Status Init() {
    MTF_RETURN_IF_DNNL_ERROR(dnnl_primitive_attr_create(&attr));
    MTF_RETURN_IF_DNNL_ERROR(dnnl_primitive_attr_set_scratchpad_mode(
        attr, dnnl_scratchpad_mode_user));
    return absl::OkStatus();
  }
};

}  // namespace mtf::cpu::onednn

#endif  // BACKENDS_CPU_ONEDNN_CALL_H_
