// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/driver/matmul.h"

#include <array>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/cuda/driver/check.h"
#include "backends/cuda/driver/lt_call.h"
#include "mtf/status.h"

namespace mtf::cuda {
namespace {

using Matrix = MatmulProblem::Matrix;

constexpr int kRuns = 3;  // timed runs of each, after one warm-up

// Algorithms are serialized as the bytes of cuBLASLt's struct.
std::string BytesOf(const cublasLtMatmulAlgo_t& algorithm) {
  return std::string(reinterpret_cast<const char*>(&algorithm),
                     sizeof(algorithm));
}
std::optional<cublasLtMatmulAlgo_t> AlgorithmOf(const std::string& bytes) {
  cublasLtMatmulAlgo_t algorithm;
  if (bytes.size() != sizeof(algorithm)) return std::nullopt;
  std::memcpy(&algorithm, bytes.data(), sizeof(algorithm));
  return algorithm;
}

class LtMatmul : public PreparedMatmul {
 public:
  LtMatmul(Gpu& gpu, cublasLtHandle_t handle, std::unique_ptr<LtCall> call,
           std::shared_ptr<const MatmulChoices::Choice> choice, void* workspace,
           std::mutex& mutex)
      : gpu_(gpu),
        handle_(handle),
        call_(std::move(call)),
        choice_(std::move(choice)),
        workspace_(workspace),
        mutex_(mutex) {}

  void Run(const Buffers& buffers) override {
    gpu_.Enter();
    std::lock_guard<std::mutex> lock(mutex_);
    gpu_.Keep(call_->Run(handle_, *AlgorithmOf(choice_->algorithm), buffers,
                         workspace_, Matmuls::kWorkspaceBytes, gpu_.stream()));
  }

 private:
  Gpu& gpu_;
  cublasLtHandle_t handle_;
  std::unique_ptr<LtCall> call_;
  std::shared_ptr<const MatmulChoices::Choice> choice_;
  void* workspace_;
  std::mutex& mutex_;  // guards the workspace
};

// The bytes between the first and the end of the last element of a batch.
int64_t SpanBytes(DType dtype, const Matrix& matrix, int64_t rows,
                  int64_t columns, int64_t batch) {
  if (matrix.transposed) std::swap(rows, columns);
  const int64_t last = (batch - 1) * matrix.batch_stride +
                       (rows - 1) * matrix.leading + columns - 1;
  return (last + 1) * DTypeSize(dtype);
}

// Operands for timing, in one allocation. If memory is short there are none,
// which is not an error: the heuristics' first choice is used.
class Operands {
 public:
  explicit Operands(const MatmulProblem& p) {
    const int64_t z = SpanBytes(p.result_dtype, p.z, p.m, p.n, p.batch);
    const int64_t sizes[] = {SpanBytes(p.dtype, p.x, p.m, p.k, p.batch),
                             SpanBytes(p.dtype, p.y, p.k, p.n, p.batch), z, z,
                             p.bias_elements() * DTypeSize(p.result_dtype)};
    int64_t all = 0;
    std::array<int64_t, 5> offsets;
    for (size_t i = 0; i < offsets.size(); ++i) {
      offsets[i] = all;
      all += (sizes[i] + 255) / 256 * 256;
    }
    size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) != cudaSuccess ||
        static_cast<size_t>(all) > free / 2 ||
        cudaMalloc(&data_, all) != cudaSuccess) {
      cudaGetLastError();
      data_ = nullptr;
      return;
    }
    char* data = static_cast<char*>(data_);
    buffers.x = data + offsets[0];
    buffers.y = data + offsets[1];
    buffers.z = data + offsets[2];
    buffers.gelu_input = data + offsets[3];
    buffers.bias = data + offsets[4];
    bytes_ = all;
  }
  ~Operands() {
    if (data_ != nullptr) cudaFree(data_);
  }
  bool ok() const { return data_ != nullptr; }

  // Small numbers in every dtype; zeros would run faster.
  absl::Status Fill(cudaStream_t stream) {
    return MTF_CUDA(cudaMemsetAsync(data_, 0x2c, bytes_, stream));
  }

  PreparedMatmul::Buffers buffers;

 private:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

// A pair of events for timing.
class Stopwatch {
 public:
  absl::Status Init() {
    MTF_RETURN_IF_ERROR(MTF_CUDA(cudaEventCreate(&begin_)));
    return MTF_CUDA(cudaEventCreate(&end_));
  }
  ~Stopwatch() {
    if (begin_ != nullptr) cudaEventDestroy(begin_);
    if (end_ != nullptr) cudaEventDestroy(end_);
  }
  // Runs `work` on the stream and returns its milliseconds.
  template <typename Work>
  absl::StatusOr<float> Time(cudaStream_t stream, const Work& work) {
    MTF_RETURN_IF_ERROR(MTF_CUDA(cudaEventRecord(begin_, stream)));
    MTF_RETURN_IF_ERROR(work());
    MTF_RETURN_IF_ERROR(MTF_CUDA(cudaEventRecord(end_, stream)));
    MTF_RETURN_IF_ERROR(MTF_CUDA(cudaEventSynchronize(end_)));
    float milliseconds = 0;
    MTF_RETURN_IF_ERROR(
        MTF_CUDA(cudaEventElapsedTime(&milliseconds, begin_, end_)));
    return milliseconds;
  }

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

// The index of the fastest of `candidates`; nullopt if they cannot be timed.
std::optional<size_t> Fastest(LtCall& call, cublasLtHandle_t handle,
                              const MatmulProblem& problem,
                              absl::Span<const std::string> candidates,
                              void* workspace, std::mutex& mutex,
                              cudaStream_t stream) {
  Operands operands(problem);
  Stopwatch stopwatch;
  if (!operands.ok() || !stopwatch.Init().ok() || !operands.Fill(stream).ok()) {
    return std::nullopt;
  }
  std::optional<size_t> best;
  float best_time = -1;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const std::optional<cublasLtMatmulAlgo_t> algorithm =
        AlgorithmOf(candidates[i]);
    const auto run = [&] {
      std::lock_guard<std::mutex> lock(mutex);
      return call.Run(handle, *algorithm, operands.buffers, workspace,
                      Matmuls::kWorkspaceBytes, stream);
    };
    if (!run().ok()) continue;
    float least = -1;
    for (int j = 0; j < kRuns; ++j) {
      const absl::StatusOr<float> time = stopwatch.Time(stream, run);
      if (!time.ok()) return best;
      if (least < 0 || *time < least) least = *time;
    }
    // A later candidate must be faster by more than the noise.
    if (best_time < 0 || least < 0.98f * best_time) {
      best = i;
      best_time = least;
    }
  }
  return best;
}

}  // namespace

class LtLibrary : public MatmulLibrary {
 public:
  LtLibrary(Gpu& gpu, cublasLtHandle_t handle, void* workspace,
            std::mutex& mutex)
      : gpu_(gpu), handle_(handle), workspace_(workspace), mutex_(mutex) {}

  std::string Version() const override {
    return absl::StrCat("cublasLt ", cublasLtGetVersion(), " ",
                        gpu_.info().name, " ", Matmuls::kWorkspaceBytes,
                        " sums in float32");
  }
  absl::StatusOr<std::vector<std::string>> Candidates(
      const MatmulProblem& problem, int most) override {
    MTF_ASSIGN_OR_RETURN(const std::unique_ptr<LtCall> call,
                         LtCall::Create(problem));
    MTF_ASSIGN_OR_RETURN(
        const std::vector<cublasLtMatmulAlgo_t> algorithms,
        call->Candidates(handle_, Matmuls::kWorkspaceBytes, most));
    std::vector<std::string> candidates;
    for (const cublasLtMatmulAlgo_t& algorithm : algorithms) {
      candidates.push_back(BytesOf(algorithm));
    }
    return candidates;
  }
  bool Accepts(const MatmulProblem& problem,
               const std::string& algorithm) override {
    const std::optional<cublasLtMatmulAlgo_t> known = AlgorithmOf(algorithm);
    const auto call = LtCall::Create(problem);
    return known.has_value() && call.ok() &&
           (*call)->Accepts(handle_, Matmuls::kWorkspaceBytes, *known);
  }
  std::optional<size_t> Fastest(
      const MatmulProblem& problem,
      absl::Span<const std::string> candidates) override {
    const auto call = LtCall::Create(problem);
    if (!call.ok()) return std::nullopt;
    // Runs after the current work, with the stream's workspace.
    return cuda::Fastest(**call, handle_, problem, candidates, workspace_,
                         mutex_, gpu_.stream());
  }

 private:
  Gpu& gpu_;
  cublasLtHandle_t handle_;
  void* workspace_;
  std::mutex& mutex_;
};

Matmuls::Matmuls(Gpu& gpu) : gpu_(gpu) {}

absl::StatusOr<std::unique_ptr<Matmuls>> Matmuls::Create(Gpu& gpu) {
  std::unique_ptr<Matmuls> matmuls(new Matmuls(gpu));
  gpu.Enter();
  MTF_RETURN_IF_ERROR(MTF_CUBLAS(cublasLtCreate(&matmuls->handle_)));
  MTF_ASSIGN_OR_RETURN(matmuls->workspace_, gpu.Allocate(kWorkspaceBytes));
  matmuls->library_ = std::make_unique<LtLibrary>(
      gpu, matmuls->handle_, matmuls->workspace_, matmuls->mutex_);
  matmuls->choices_ = std::make_unique<MatmulChoices>(
      *matmuls->library_, DiskCache(DiskCache::Folder("matmuls")));
  return matmuls;
}

Matmuls::~Matmuls() {
  gpu_.Free(workspace_);
  if (handle_ != nullptr) cublasLtDestroy(handle_);
}

absl::StatusOr<std::unique_ptr<PreparedMatmul>> Matmuls::Prepare(
    const MatmulProblem& problem, bool may_time) {
  gpu_.Enter();
  MTF_ASSIGN_OR_RETURN(std::unique_ptr<LtCall> call, LtCall::Create(problem));
  MTF_ASSIGN_OR_RETURN(std::shared_ptr<const MatmulChoices::Choice> choice,
                       choices_->Choose(problem, may_time));
  return std::make_unique<LtMatmul>(gpu_, handle_, std::move(call),
                                    std::move(choice), workspace_, mutex_);
}

absl::StatusOr<std::string> Matmuls::Settle(int rank,
                                            const AllGatherTexts& all_gather) {
  gpu_.Enter();
  return choices_->Settle(rank, all_gather);
}

}  // namespace mtf::cuda
