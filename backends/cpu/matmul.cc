// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/matmul.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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

// A loop over the batch around single products.
class LoopMatmul : public Matmul {
 public:
  explicit LoopMatmul(const MatmulSpec& spec)
      : batch_(spec.batch),
        size_(DTypeSize(spec.dtype)),
        z_size_(DTypeSize(spec.result_dtype())) {
    for (const EinsumLoop& loop : batch_) count_ *= loop.extent;
  }

  void Run(const void* x, const void* y, void* z) override {
    for (int64_t i = 0; i < count_; ++i) {
      int64_t at_x = 0, at_y = 0, at_z = 0, rest = i;
      for (auto loop = batch_.rbegin(); loop != batch_.rend(); ++loop) {
        const int64_t at = rest % loop->extent;
        rest /= loop->extent;
        at_x += at * loop->x;
        at_y += at * loop->y;
        at_z += at * loop->z;
      }
      RunOne(static_cast<const char*>(x) + at_x * size_,
             static_cast<const char*>(y) + at_y * size_,
             static_cast<char*>(z) + at_z * z_size_);
    }
  }

 protected:
  virtual void RunOne(const void* x, const void* y, void* z) = 0;

 private:
  std::vector<EinsumLoop> batch_;
  int64_t count_ = 1;
  int64_t size_, z_size_;
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

  void RunOne(const void* x, const void* y, void* z) override {
    onednn::Sgemm(m_, n_, k_, static_cast<const float*>(x), x_,
                  static_cast<const float*>(y), y_, accumulate_,
                  static_cast<float*>(z), z_.leading);
  }

  int64_t m_, n_, k_;
  bool accumulate_;
  onednn::Matrix x_, y_, z_;
};

// A loop over the batch that calls a primitive.
class PrimitiveLoopMatmul : public LoopMatmul {
 public:
  PrimitiveLoopMatmul(const MatmulSpec& spec,
                      std::unique_ptr<onednn::Primitive> primitive)
      : LoopMatmul(spec), primitive_(std::move(primitive)) {}
  std::string ToString() const override {
    return absl::StrCat("loop of ", primitive_->implementation());
  }

 private:
  void RunOne(const void* x, const void* y, void* z) override {
    primitive_->Run(x, y, z);
  }
  std::unique_ptr<onednn::Primitive> primitive_;
};

using Packs = onednn::Primitive::Packs;

bool IsTransposedX(const MatmulSpec& spec) {
  return spec.k.x != 1 && spec.k.extent > 1;
}

// Whether every run copies x into rows: for bfloat16 the gradient of a weight,
// whose x has its rows innermost, takes half the time that way.
bool PacksX(const MatmulSpec& spec) {
  constexpr int64_t kLeastRows = 32;
  return spec.dtype == kBFloat16 && spec.batch.empty() && IsTransposedX(spec) &&
         spec.m.extent >= kLeastRows;
}

// A product on the calling thread.
absl::StatusOr<std::unique_ptr<Matmul>> CreateForOneThread(
    const MatmulSpec& spec) {
  // Measured with benchmarks/einsum_benchmark for floats: the plain product is
  // fastest for a single matrix, and in a loop for a batch with x transposed;
  // the primitive is fastest if y is transposed, and for a batch otherwise.
  const bool x_transposed = IsTransposedX(spec);
  const bool y_transposed = spec.n.y != 1 && spec.n.extent > 1;
  if (spec.dtype == kFloat32 &&
      (x_transposed || (spec.batch.empty() && !y_transposed))) {
    return std::make_unique<GemmMatmul>(spec);
  }
  // Packing y in every run pays off for bfloat16 products with enough rows, and
  // never for floats.
  const bool packs_y =
      spec.dtype == kBFloat16 && spec.batch.empty() && spec.m.extent >= 512;
  const Packs packs = PacksX(spec) ? Packs::kX
                      : packs_y    ? Packs::kY
                                   : Packs::kNone;
  // The library has fast code for at most two batch loops.
  if (spec.batch.size() <= 2) {
    auto primitive = onednn::Primitive::Create(spec, packs);
    const bool one_bfloat = spec.dtype == kBFloat16 && spec.batch.empty();
    if (primitive.ok() &&
        (one_bfloat ||
         absl::StartsWith((*primitive)->implementation(), "brg"))) {
      return std::make_unique<PrimitiveMatmul>(*std::move(primitive));
    }
    if (!primitive.ok() && one_bfloat) return primitive.status();
  }
  if (spec.dtype == kFloat32) return std::make_unique<GemmMatmul>(spec);
  MatmulSpec single = spec;
  single.batch.clear();
  MTF_ASSIGN_OR_RETURN(auto primitive,
                       onednn::Primitive::Create(single, Packs::kNone));
  return std::make_unique<PrimitiveLoopMatmul>(spec, std::move(primitive));
}

// The loop of a product whose range threads divide.
struct Division {
  EinsumLoop* loop = nullptr;  // null: none is worth it
  int64_t unit = 1;            // ranges are multiples of it, but for the last
  int64_t pieces = 1;
};

// Prefers the longest batch loop: its pieces read nothing twice. Otherwise the
// longer of rows and columns is divided, because each piece reads the other
// operand, and packs it for the processor. If x must be packed, rows are divided
// into short pieces that each pack their own rows of x, so that their results
// stay in the cache.
Division ChooseDivision(MatmulSpec& spec, int threads) {
  constexpr double kLeastProducts = 1 << 16;  // some microseconds
  constexpr int64_t kUnit = 32;               // rows or columns of a kernel
  constexpr int64_t kLongPiece = 256;         // packing is amortised
  const bool packs_x = PacksX(spec);
  double products = static_cast<double>(spec.m.extent) *
                    static_cast<double>(spec.n.extent) *
                    static_cast<double>(spec.k.extent);
  Division best;
  for (EinsumLoop& loop : spec.batch) {
    products *= static_cast<double>(loop.extent);
    if (best.loop == nullptr || loop.extent > best.loop->extent) {
      best.loop = &loop;
    }
  }
  if (products < kLeastProducts * threads) return {};
  if (best.loop != nullptr && best.loop->extent >= threads) {
    best.pieces =
        threads * std::clamp<int64_t>(best.loop->extent / threads, 1, 4);
    return best;
  }
  const bool divides_m = packs_x || spec.m.extent >= spec.n.extent;
  best.loop = divides_m ? &spec.m : &spec.n;
  best.unit = kUnit;
  const int64_t units = best.loop->extent / kUnit;
  best.pieces = std::min<int64_t>(
      units,
      threads * std::clamp<int64_t>(best.loop->extent / (threads * kLongPiece),
                                    1, packs_x ? 64 : 4));
  return best.pieces > 1 ? best : Division();
}

// A product whose pieces run on several threads.
class DividedMatmul : public Matmul {
 public:
  absl::Status Init(MatmulSpec& spec, const Division& division, int threads) {
    const EinsumLoop loop = *division.loop;
    const int64_t units = loop.extent / division.unit;
    size_ = DTypeSize(spec.dtype);
    z_size_ = DTypeSize(spec.result_dtype());
    // Pieces differ by a unit, and the last one takes the rest of it.
    std::vector<int64_t> extents;
    for (int64_t i = 0; i < division.pieces; ++i) {
      const int64_t begin = units * i / division.pieces * division.unit;
      const int64_t end =
          i + 1 == division.pieces
              ? loop.extent
              : units * (i + 1) / division.pieces * division.unit;
      auto same = std::find(extents.begin(), extents.end(), end - begin);
      pieces_.push_back({begin * loop.x * size_, begin * loop.y * size_,
                         begin * loop.z * z_size_, same - extents.begin()});
      if (same == extents.end()) extents.push_back(end - begin);
    }
    // Primitives have memory of their own, so each thread has some.
    by_thread_.resize(threads);
    for (auto& matmuls : by_thread_) {
      for (const int64_t extent : extents) {
        division.loop->extent = extent;
        MTF_ASSIGN_OR_RETURN(auto matmul, CreateForOneThread(spec));
        matmuls.push_back(std::move(matmul));
      }
    }
    return absl::OkStatus();
  }

  void Run(const void* x, const void* y, void* z) override {
    internal::RunPieces(static_cast<int>(pieces_.size()), [&](int i) {
      const Piece& piece = pieces_[i];
      by_thread_[ThreadIndex()][piece.kind]->Run(
          static_cast<const char*>(x) + piece.x,
          static_cast<const char*>(y) + piece.y,
          static_cast<char*>(z) + piece.z);
    });
  }
  std::string ToString() const override { return by_thread_[0][0]->ToString(); }

 private:
  struct Piece {
    int64_t x, y, z;  // offsets in bytes
    int64_t kind;     // index into the products of a thread
  };
  std::vector<Piece> pieces_;
  std::vector<std::vector<std::unique_ptr<Matmul>>> by_thread_;
  int64_t size_ = 0, z_size_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Matmul>> Matmul::Create(const MatmulSpec& spec) {
  MTF_CHECK(spec.dtype == kFloat32 || spec.dtype == kBFloat16)
      << DTypeName(spec.dtype);
  const int threads = NumThreads();
  MatmulSpec divided = spec;
  const bool divides = threads > 1 || PacksX(spec);
  const Division division =
      divides ? ChooseDivision(divided, threads) : Division();
  if (division.loop == nullptr) return CreateForOneThread(spec);
  auto matmul = std::make_unique<DividedMatmul>();
  MTF_RETURN_IF_ERROR(matmul->Init(divided, division, threads));
  return matmul;
}

}  // namespace mtf::cpu
