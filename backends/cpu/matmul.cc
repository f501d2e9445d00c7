// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/matmul.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/threads.h"
#include "mtf/check.h"
#include "mtf/status.h"

namespace mtf::cpu {
namespace {

// One call of the library for the whole batch.
class PrimitiveMatmul : public Matmul {
 public:
  explicit PrimitiveMatmul(std::unique_ptr<onednn::Primitive> primitive)
      : primitive_(std::move(primitive)) {}
  void Run(const void* x, const void* y, void* z) override {
    primitive_->Run(x, y, z);
  }
  std::string ToString() const override { return primitive_->implementation(); }

 private:
  std::unique_ptr<onednn::Primitive> primitive_;
};

// A loop over the batch around single products. Threads divide the batch if it
// is long enough to keep all of them busy, and otherwise each product.
class LoopMatmul : public Matmul {
 public:
  explicit LoopMatmul(const MatmulSpec& spec)
      : batch_(spec.batch),
        size_(DTypeSize(spec.dtype)),
        z_size_(DTypeSize(spec.result_dtype())) {
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
               static_cast<char*>(z) + at_z * z_size_);
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
  int64_t size_, z_size_;
  bool shared_ = false;
};

// Plain float products, which are fast for any leading dimensions.
class GemmMatmul : public LoopMatmul {
 public:
  explicit GemmMatmul(const MatmulSpec& spec)
      : LoopMatmul(spec),
        m_(spec.m.extent),
        n_(spec.n.extent),
        k_(spec.k.extent),
        accumulate_(spec.accumulate),
        x_(MatrixOf(m_, spec.m.x, k_, spec.k.x)),
        y_(MatrixOf(k_, spec.k.y, n_, spec.n.y)),
        z_(MatrixOf(m_, spec.m.z, n_, spec.n.z)) {
    MTF_CHECK(!z_.transposed) << spec.n.z;
  }
  std::string ToString() const override { return "gemm"; }

 private:
  // A single row or column can be described as transposed or not; the leading
  // dimension must still be valid for a full matrix.
  static onednn::Matrix MatrixOf(int64_t rows, int64_t row_stride,
                                 int64_t columns, int64_t column_stride) {
    if (columns == 1 || column_stride == 1) {
      return {false, rows == 1 ? columns : row_stride};
    }
    return {true, columns == 1 ? rows : column_stride};
  }

  void RunOne(int, const void* x, const void* y, void* z) override {
    onednn::Sgemm(m_, n_, k_, static_cast<const float*>(x), x_,
                  static_cast<const float*>(y), y_, accumulate_,
                  static_cast<float*>(z), z_.leading);
  }

  int64_t m_, n_, k_;
  bool accumulate_;
  onednn::Matrix x_, y_, z_;
};

// A loop over the batch that calls a primitive of each thread.
class PrimitiveLoopMatmul : public LoopMatmul {
 public:
  explicit PrimitiveLoopMatmul(const MatmulSpec& spec) : LoopMatmul(spec) {}

  absl::Status Init(MatmulSpec spec) {
    spec.batch.clear();
    const int threads = NumThreads();
    // A primitive divides its work among the threads at its creation.
    if (shared()) UseThreads(1);
    absl::Status status;
    for (int i = 0; i < (shared() ? threads : 1) && status.ok(); ++i) {
      auto primitive = onednn::Primitive::Create(spec, false);
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
  std::vector<std::unique_ptr<onednn::Primitive>> primitives_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Matmul>> Matmul::Create(const MatmulSpec& spec) {
  MTF_CHECK(spec.dtype == kFloat32 || spec.dtype == kBFloat16)
      << DTypeName(spec.dtype);
  // Measured with benchmarks/einsum_benchmark for floats: the plain product is
  // fastest for a single matrix, and in a loop for a batch with x transposed;
  // the primitive is fastest if y is transposed, and for a batch otherwise.
  const bool x_transposed = spec.k.x != 1 && spec.k.extent > 1;
  const bool y_transposed = spec.n.y != 1 && spec.n.extent > 1;
  if (spec.dtype == kFloat32 &&
      (x_transposed || (spec.batch.empty() && !y_transposed))) {
    return std::make_unique<GemmMatmul>(spec);
  }
  // Packing y in every run pays off for bfloat16 products with enough rows, and
  // never for floats.
  const bool packs_y =
      spec.dtype == kBFloat16 && spec.batch.empty() && spec.m.extent >= 512;
  // The library has fast code for at most two batch loops.
  if (spec.batch.size() <= 2) {
    auto primitive = onednn::Primitive::Create(spec, packs_y);
    const bool one_bfloat = spec.dtype == kBFloat16 && spec.batch.empty();
    if (primitive.ok() &&
        (one_bfloat ||
         absl::StartsWith((*primitive)->implementation(), "brg"))) {
      return std::make_unique<PrimitiveMatmul>(*std::move(primitive));
    }
    if (!primitive.ok() && one_bfloat) return primitive.status();
  }
  if (spec.dtype == kFloat32) return std::make_unique<GemmMatmul>(spec);
  auto loop = std::make_unique<PrimitiveLoopMatmul>(spec);
  MTF_RETURN_IF_ERROR(loop->Init(spec));
  return loop;
}

}  // namespace mtf::cpu
