// SPDX-License-Identifier: Apache-2.0
//
// The one file that knows oneDNN, by its C interface: that of release 2, and
// that of release 3 where it differs.
#include "backends/cpu/matmul.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/threads.h"
#include "mtf/check.h"
#include "mtf/status.h"
#include "oneapi/dnnl/dnnl.h"

// Returns a Status that names the call and its code.
#define MTF_RETURN_IF_DNNL_ERROR(call)            \
  do {                                            \
    const dnnl_status_t mtf_dnnl_status = (call); \
    if (mtf_dnnl_status != dnnl_success)          \
      return DnnlError(#call, mtf_dnnl_status);   \
  } while (false)

namespace mtf::cpu {
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

// Primitives are made once per instruction and kept by their kernels; the cache
// lets instructions of one shape share the code that is assembled for it.
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

// How a matrix lies in memory: sizes and strides of rows and columns, outermost
// batch first.
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

size_t ScratchpadBytes(dnnl_primitive_desc_t desc) {
  const auto* scratchpad =
      dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
  return scratchpad == nullptr ? 0 : dnnl_memory_desc_get_size(scratchpad);
}

// A matmul primitive with its memory objects; runs on whatever threads the
// library takes where it is called.
class Primitive {
 public:
  ~Primitive() {
    for (dnnl_memory_t memory : {x_, y_, z_, scratchpad_}) {
      if (memory != nullptr) dnnl_memory_destroy(memory);
    }
    if (primitive_ != nullptr) dnnl_primitive_destroy(primitive_);
    if (desc_ != nullptr) dnnl_primitive_desc_destroy(desc_);
  }

  static absl::StatusOr<std::unique_ptr<Primitive>> Create(
      const MatmulSpec& spec);

  void Run(const void* x, const void* y, void* z) {
    void* scratch = ThreadScratch(ScratchUse::kMatmul, scratchpad_bytes_);
    dnnl_memory_set_data_handle(x_, const_cast<void*>(x));
    dnnl_memory_set_data_handle(y_, const_cast<void*>(y));
    dnnl_memory_set_data_handle(z_, z);
    dnnl_memory_set_data_handle(scratchpad_, scratch);
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, x_},
                                         {DNNL_ARG_WEIGHTS, y_},
                                         {DNNL_ARG_DST, z_},
                                         {DNNL_ARG_SCRATCHPAD, scratchpad_}};
    const dnnl_status_t status =
        dnnl_primitive_execute(primitive_, Stream(), 4, arguments);
    MTF_CHECK(status == dnnl_success)
        << DnnlError("dnnl_primitive_execute", status).ToString();
  }

  const std::string& implementation() const { return implementation_; }

 private:
  absl::Status Init(const MatmulSpec& spec);

  dnnl_primitive_desc_t desc_ = nullptr;
  dnnl_primitive_t primitive_ = nullptr;
  dnnl_memory_t x_ = nullptr, y_ = nullptr, z_ = nullptr;
  dnnl_memory_t scratchpad_ = nullptr;
  size_t scratchpad_bytes_ = 0;
  std::string implementation_;
};

// A matrix of `rows` by `columns` with batch dimensions in front; one that the
// operand lacks has size 1 and is broadcast. Strides of sizes of 1 never count,
// but the library recognises dense matrices by them.
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

absl::Status Primitive::Init(const MatmulSpec& spec) {
  const dnnl_data_type_t type = spec.dtype == kBFloat16 ? dnnl_bf16 : dnnl_f32;
  MemoryDesc x, y, z;
  MTF_RETURN_IF_DNNL_ERROR(
      x.Init(type, LayoutOf(spec.batch, &EinsumLoop::x, spec.m.extent, spec.m.x,
                            spec.k.extent, spec.k.x)));
  MTF_RETURN_IF_DNNL_ERROR(
      y.Init(type, LayoutOf(spec.batch, &EinsumLoop::y, spec.k.extent, spec.k.y,
                            spec.n.extent, spec.n.y)));
  MTF_RETURN_IF_DNNL_ERROR(
      z.Init(type, LayoutOf(spec.batch, &EinsumLoop::z, spec.m.extent, spec.m.z,
                            spec.n.extent, spec.n.z)));
  struct Attributes {
    dnnl_primitive_attr_t attr = nullptr;
    dnnl_post_ops_t ops = nullptr;
    ~Attributes() {
      if (ops != nullptr) dnnl_post_ops_destroy(ops);
      if (attr != nullptr) dnnl_primitive_attr_destroy(attr);
    }
  } attributes;
  MTF_RETURN_IF_DNNL_ERROR(dnnl_primitive_attr_create(&attributes.attr));
  MTF_RETURN_IF_DNNL_ERROR(dnnl_primitive_attr_set_scratchpad_mode(
      attributes.attr, dnnl_scratchpad_mode_user));
  if (spec.accumulate) {
    MTF_RETURN_IF_DNNL_ERROR(dnnl_post_ops_create(&attributes.ops));
    MTF_RETURN_IF_DNNL_ERROR(AppendSum(attributes.ops));
    MTF_RETURN_IF_DNNL_ERROR(
        dnnl_primitive_attr_set_post_ops(attributes.attr, attributes.ops));
  }
  MTF_RETURN_IF_DNNL_ERROR(DescribeMatmul(x, y, z, attributes.attr, &desc_));
  const char* name = nullptr;
  MTF_RETURN_IF_DNNL_ERROR(
      dnnl_primitive_desc_query(desc_, dnnl_query_impl_info_str, 0, &name));
  implementation_ = name;
  if (absl::StartsWith(implementation_, "ref")) {
    return absl::UnimplementedError(
        absl::StrCat("oneDNN has only reference code for a matmul of ",
                     DTypeName(spec.dtype)));
  }
  MTF_RETURN_IF_DNNL_ERROR(dnnl_primitive_create(&primitive_, desc_));
  scratchpad_bytes_ = ScratchpadBytes(desc_);
  MTF_RETURN_IF_DNNL_ERROR(
      dnnl_memory_create(&x_, x.get(), Engine(), DNNL_MEMORY_NONE));
  MTF_RETURN_IF_DNNL_ERROR(
      dnnl_memory_create(&y_, y.get(), Engine(), DNNL_MEMORY_NONE));
  MTF_RETURN_IF_DNNL_ERROR(
      dnnl_memory_create(&z_, z.get(), Engine(), DNNL_MEMORY_NONE));
  MTF_RETURN_IF_DNNL_ERROR(dnnl_memory_create(
      &scratchpad_,
      dnnl_primitive_desc_query_md(desc_, dnnl_query_scratchpad_md, 0),
      Engine(), DNNL_MEMORY_NONE));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Primitive>> Primitive::Create(
    const MatmulSpec& spec) {
  auto primitive = std::make_unique<Primitive>();
  MTF_RETURN_IF_ERROR(primitive->Init(spec));
  return primitive;
}

// One call of the library, batch and all.
class PrimitiveMatmul : public Matmul {
 public:
  explicit PrimitiveMatmul(std::unique_ptr<Primitive> primitive)
      : primitive_(std::move(primitive)) {}
  void Run(const void* x, const void* y, void* z) override {
    primitive_->Run(x, y, z);
  }
  std::string ToString() const override { return primitive_->implementation(); }

 private:
  std::unique_ptr<Primitive> primitive_;
};

// The batch as a loop of our own around single products. Threads share the
// batch where it is long enough to keep them all busy, and each product
// otherwise.
class LoopMatmul : public Matmul {
 public:
  explicit LoopMatmul(const MatmulSpec& spec)
      : batch_(spec.batch), size_(spec.dtype == kBFloat16 ? 2 : 4) {
    for (const EinsumLoop& loop : batch_) count_ *= loop.extent;
    const int64_t threads = NumThreads();
    shared_ = threads > 1 && (count_ % threads == 0 || count_ >= 4 * threads);
  }

  void Run(const void* x, const void* y, void* z) override {
    const auto range = [&](int64_t begin, int64_t end, int thread) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t at_x = 0, at_y = 0, at_z = 0, rest = i;
        for (auto loop = batch_.rbegin(); loop != batch_.rend(); ++loop) {
          const int64_t at = rest % loop->extent;
          rest /= loop->extent;
          at_x += at * loop->x;
          at_y += at * loop->y;
          at_z += at * loop->z;
        }
        RunOne(thread, static_cast<const char*>(x) + at_x * size_,
               static_cast<const char*>(y) + at_y * size_,
               static_cast<char*>(z) + at_z * size_);
      }
    };
    if (!shared_) return range(0, count_, 0);
    ParallelFor(count_, 1, [&](int64_t begin, int64_t end) {
      range(begin, end, omp_get_thread_num());
    });
  }

 protected:
  bool shared() const { return shared_; }
  virtual void RunOne(int thread, const void* x, const void* y, void* z) = 0;

 private:
  std::vector<EinsumLoop> batch_;
  int64_t count_ = 1;
  int64_t size_;
  bool shared_ = false;
};

// Plain float products, which take any leading dimensions at full speed.
class GemmMatmul : public LoopMatmul {
 public:
  explicit GemmMatmul(const MatmulSpec& spec)
      : LoopMatmul(spec),
        m_(spec.m.extent),
        n_(spec.n.extent),
        k_(spec.k.extent),
        beta_(spec.accumulate ? 1.0f : 0.0f) {
    x_ = MatrixOf(m_, spec.m.x, k_, spec.k.x);
    y_ = MatrixOf(k_, spec.k.y, n_, spec.n.y);
    z_ = MatrixOf(m_, spec.m.z, n_, spec.n.z);
    MTF_CHECK_EQ(z_.transposed, 'N');
  }
  std::string ToString() const override { return "gemm"; }

 private:
  struct Matrix {
    char transposed;
    dnnl_dim_t leading;
  };
  static Matrix MatrixOf(int64_t rows, int64_t row_stride, int64_t columns,
                         int64_t column_stride) {
    if (columns == 1 || column_stride == 1) {
      return {'N', rows == 1 ? columns : row_stride};
    }
    return {'T', columns == 1 ? rows : column_stride};
  }

  void RunOne(int, const void* x, const void* y, void* z) override {
    const dnnl_status_t status = dnnl_sgemm(
        x_.transposed, y_.transposed, m_, n_, k_, 1.0f,
        static_cast<const float*>(x), x_.leading, static_cast<const float*>(y),
        y_.leading, beta_, static_cast<float*>(z), z_.leading);
    MTF_CHECK(status == dnnl_success)
        << DnnlError("dnnl_sgemm", status).ToString();
  }

  int64_t m_, n_, k_;
  float beta_;
  Matrix x_, y_, z_;
};

// The same product by a primitive for each thread.
class PrimitiveLoopMatmul : public LoopMatmul {
 public:
  explicit PrimitiveLoopMatmul(const MatmulSpec& spec) : LoopMatmul(spec) {}

  absl::Status Init(MatmulSpec spec) {
    spec.batch.clear();
    const int threads = NumThreads();
    // A primitive divides its work for the threads there are when it is made.
    if (shared()) UseThreads(1);
    absl::Status status;
    for (int i = 0; i < (shared() ? threads : 1) && status.ok(); ++i) {
      auto primitive = Primitive::Create(spec);
      status = primitive.status();
      if (status.ok()) primitives_.push_back(*std::move(primitive));
    }
    if (shared()) UseThreads(threads);
    return status;
  }
  std::string ToString() const override {
    return absl::StrCat("loop of ", primitives_[0]->implementation());
  }

 private:
  void RunOne(int thread, const void* x, const void* y, void* z) override {
    primitives_[thread]->Run(x, y, z);
  }
  std::vector<std::unique_ptr<Primitive>> primitives_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Matmul>> Matmul::Create(const MatmulSpec& spec) {
  MTF_CHECK(spec.dtype == kFloat32 || spec.dtype == kBFloat16)
      << DTypeName(spec.dtype);
  // Measured (benchmarks/einsum_benchmark): for floats the plain product is as
  // fast as a primitive for single matrices and faster for transposed ones; a
  // batch with rows of x in order goes faster through the primitive.
  const bool transposed = spec.k.x != 1 && spec.k.extent > 1;
  if (spec.dtype == kFloat32 && (spec.batch.empty() || transposed)) {
    return std::make_unique<GemmMatmul>(spec);
  }
  // More than two batch loops are never one call of the fast code.
  if (spec.batch.size() <= 2) {
    auto primitive = Primitive::Create(spec);
    if (primitive.ok() &&
        (spec.batch.empty() ||
         absl::StartsWith((*primitive)->implementation(), "brg"))) {
      return std::make_unique<PrimitiveMatmul>(*std::move(primitive));
    }
    if (!primitive.ok() && spec.batch.empty()) return primitive.status();
  }
  if (spec.dtype == kFloat32) return std::make_unique<GemmMatmul>(spec);
  auto loop = std::make_unique<PrimitiveLoopMatmul>(spec);
  MTF_RETURN_IF_ERROR(loop->Init(spec));
  return loop;
}

}  // namespace mtf::cpu
