// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "backends/cuda/emulated/libraries.h"
#include "mtf/host_tensor.h"
#include "mtf/scalar_functions.h"

namespace mtf::cuda {
namespace {

using Matrix = MatmulProblem::Matrix;
using Epilogue = MatmulProblem::Epilogue;

int64_t ElementOffset(const Matrix& matrix, int64_t batch, int64_t row,
                      int64_t column) {
  return batch * matrix.batch_stride + (matrix.transposed
                                            ? column * matrix.leading + row
                                            : row * matrix.leading + column);
}

double Gelu(double x) { return EvaluateScalar(ScalarFunction::kGelu, x); }
double GeluDerivative(double x) {
  return EvaluateScalar(ScalarFunction::kGeluDerivative, x);
}

// Copies matrix `batch` to dense rows of floats.
std::vector<float> Dense(const void* data, DType dtype, const Matrix& matrix,
                         int64_t batch, int64_t rows, int64_t columns) {
  std::vector<float> dense(rows * columns);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      dense[r * columns + c] = static_cast<float>(
          LoadElement(data, dtype, ElementOffset(matrix, batch, r, c)));
    }
  }
  return dense;
}

class EmulatedMatmul : public PreparedMatmul {
 public:
  EmulatedMatmul(const MatmulProblem& problem, EnqueueWork enqueue)
      : problem_(problem), enqueue_(std::move(enqueue)) {}

  void Run(const Buffers& buffers) override {
    enqueue_([problem = problem_, buffers] {
      for (int64_t b = 0; b < problem.batch; ++b) RunBatch(problem, buffers, b);
    });
  }

 private:
  static void RunBatch(const MatmulProblem& p, const Buffers& buffers,
                       int64_t b) {
    const std::vector<float> x = Dense(buffers.x, p.dtype, p.x, b, p.m, p.k);
    const std::vector<float> y = Dense(buffers.y, p.dtype, p.y, b, p.k, p.n);
    std::vector<float> sums(p.n);
    std::vector<double> columns(p.n, 0);
    for (int64_t m = 0; m < p.m; ++m) {
      sums.assign(p.n, 0.0f);
      for (int64_t k = 0; k < p.k; ++k) {
        const float factor = x[m * p.k + k];
        const float* row = y.data() + k * p.n;
        for (int64_t n = 0; n < p.n; ++n) sums[n] += factor * row[n];
      }
      for (int64_t n = 0; n < p.n; ++n) {
        const int64_t offset = ElementOffset(p.z, b, m, n);
        float z = p.alpha * sums[n];
        if (p.beta != 0) {
          const void* addend =
              buffers.addend != nullptr ? buffers.addend : buffers.z;
          z += p.beta *
               static_cast<float>(LoadElement(addend, p.result_dtype, offset));
        }
        const double result = Finish(p, buffers, offset, n, z);
        StoreElement(buffers.z, p.result_dtype, offset, result);
        columns[n] += LoadElement(buffers.z, p.result_dtype, offset);
      }
    }
    switch (p.epilogue) {
      case Epilogue::kBiasOfSlope:
        return Store(columns, p, buffers);
      case Epilogue::kSumsOfX:
        return Store(Sums(x, p.m, p.k, 1, p.k), p, buffers);
      case Epilogue::kSumsOfY:
        return Store(Sums(y, p.n, 1, p.n, p.k), p, buffers);
      default:
        return;
    }
  }

  // `count` sums of k elements each. Elements of a sum are `step` apart, the
  // first elements of consecutive sums `apart`.
  static std::vector<double> Sums(const std::vector<float>& dense,
                                  int64_t count, int64_t apart, int64_t step,
                                  int64_t k) {
    std::vector<double> sums(count);
    for (int64_t i = 0; i < count; ++i) {
      float sum = 0;
      for (int64_t j = 0; j < k; ++j) sum += dense[i * apart + j * step];
      sums[i] = sum;
    }
    return sums;
  }

  static void Store(const std::vector<double>& sums, const MatmulProblem& p,
                    const Buffers& buffers) {
    for (size_t i = 0; i < sums.size(); ++i) {
      StoreElement(buffers.bias, p.result_dtype, static_cast<int64_t>(i),
                   sums[i]);
    }
  }

  // Applies the epilogue to one element in column n.
  static double Finish(const MatmulProblem& p, const Buffers& buffers,
                       int64_t offset, int64_t n, double z) {
    const DType dtype = p.result_dtype;
    switch (p.epilogue) {
      case Epilogue::kNone:
      case Epilogue::kSumsOfX:
      case Epilogue::kSumsOfY:
        return z;
      case Epilogue::kBias:
        return z + LoadElement(buffers.bias, dtype, n);
      case Epilogue::kGelu:
      case Epilogue::kBiasGelu:
        if (p.epilogue == Epilogue::kBiasGelu) {
          z += LoadElement(buffers.bias, dtype, n);
        }
        if (p.stores_gelu_input)
          StoreElement(buffers.gelu_input, dtype, offset, z);
        return Gelu(z);
      case Epilogue::kGeluSlope:
      case Epilogue::kBiasOfSlope:
        return z *
               GeluDerivative(LoadElement(buffers.gelu_input, dtype, offset));
    }
    return z;
  }

  MatmulProblem problem_;
  EnqueueWork enqueue_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PreparedMatmul>> PrepareEmulatedMatmul(
    const MatmulProblem& problem, EnqueueWork enqueue) {
  if (!IsFloat(problem.dtype) || !IsFloat(problem.result_dtype)) {
    return absl::UnimplementedError("matmuls support floats only");
  }
  const bool sums = problem.epilogue == Epilogue::kBiasOfSlope ||
                    problem.epilogue == Epilogue::kSumsOfX ||
                    problem.epilogue == Epilogue::kSumsOfY;
  if (sums && problem.batch > 1) {
    return absl::UnimplementedError("epilogues cannot sum over a batch");
  }
  // The same restriction as cuBLASLt's, for which callers have a fallback.
  const bool kept = problem.stores_gelu_input ||
                    problem.epilogue == Epilogue::kGeluSlope ||
                    problem.epilogue == Epilogue::kBiasOfSlope;
  if (kept && (problem.z.leading % 8 != 0 || problem.z.batch_stride % 8 != 0)) {
    return absl::UnimplementedError(
        "rows of gelu inputs must be multiples of 8");
  }
  return std::make_unique<EmulatedMatmul>(problem, std::move(enqueue));
}

}  // namespace mtf::cuda
