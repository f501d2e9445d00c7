// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
//
// The emulated GPU: barriers and shuffles, errors that a real GPU would not
// detect, recordings, and library calls against loops.
#include <stdlib.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/cuda/emulated/host_compiler.h"
#include "backends/cuda/runtime.h"
#include "mtf/half.h"
#include "mtf/host_tensor.h"
#include "mtf/scalar_functions.h"
#include "tests/matchers.h"

namespace mtf::cuda {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EmulatedGpu : public ::testing::Test {
 protected:
  EmulatedGpu() : runtime_(*OpenEmulatedGpu()) {}
  ~EmulatedGpu() override {
    for (void* memory : memory_) runtime_->Free(memory);
  }

  template <class T>
  T* Put(const std::vector<T>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    void* memory = *runtime_->Allocate(bytes);
    runtime_->CopyToDevice(memory, values.data(), bytes);
    memory_.push_back(memory);
    return static_cast<T*>(memory);
  }
  template <class T>
  std::vector<T> Get(const T* memory, size_t count) {
    std::vector<T> values(count);
    runtime_->CopyToHost(values.data(), memory,
                         static_cast<int64_t>(count * sizeof(T)));
    return values;
  }

  // Runs a kernel called k over int* x; returns its status.
  absl::Status Run(const std::string& body, int* x, int64_t blocks,
                   int threads) {
    auto function = runtime_->Compile(
        {"k", absl::StrCat("extern \"C\" __global__ void k(int* x) {\n", body,
                           "\n}\n")});
    if (!function.ok()) return function.status();
    void* arguments[] = {&x};
    runtime_->Launch(**function, {.blocks = blocks, .threads = threads},
                     arguments);
    return runtime_->Synchronize();
  }

  std::shared_ptr<Runtime> runtime_;
  std::vector<void*> memory_;
};

TEST_F(EmulatedGpu, EveryThreadOfEveryBlockRuns) {
  int* x = Put(std::vector<int>(3 * 64, 0));
  ASSERT_OK(
      Run("x[blockIdx.x * blockDim.x + threadIdx.x] = "
          "1000 * blockIdx.x + threadIdx.x + gridDim.x;",
          x, 3, 64));
  const std::vector<int> got = Get(x, 3 * 64);
  for (int i = 0; i < 3 * 64; ++i) {
    ASSERT_EQ(got[i], 1000 * (i / 64) + i % 64 + 3);
  }
}

TEST_F(EmulatedGpu, BarrierMakesWritesVisible) {
  int* x = Put(std::vector<int>(2 * 96, 0));
  ASSERT_OK(
      Run("__shared__ int shared[96];\n"
          "for (int round = 0; round < 3; ++round) {\n"
          "  shared[threadIdx.x] = threadIdx.x + round;\n"
          "  __syncthreads();\n"
          "  x[blockIdx.x * 96 + threadIdx.x] += shared[95 - threadIdx.x];\n"
          "  __syncthreads();\n"
          "}",
          x, 2, 96));
  const std::vector<int> got = Get(x, 2 * 96);
  for (int i = 0; i < 2 * 96; ++i) ASSERT_EQ(got[i], 3 * (95 - i % 96) + 3);
}

TEST_F(EmulatedGpu, ShufflesStayWithinAWarp) {
  int* x = Put(std::vector<int>(64 * 4, -1));
  ASSERT_OK(
      Run("const int t = threadIdx.x;\n"
          "x[t] = __shfl_xor_sync(0xffffffffu, t, 5);\n"
          "x[64 + t] = __shfl_down_sync(0xffffffffu, t, 3);\n"
          "x[128 + t] = __shfl_up_sync(0xffffffffu, t, 30);\n"
          "x[192 + t] = __shfl_sync(0xffffffffu, t, 7);",
          x, 1, 64));
  const std::vector<int> got = Get(x, 64 * 4);
  for (int t = 0; t < 64; ++t) {
    const int lane = t % 32;
    EXPECT_EQ(got[t], t ^ 5);
    EXPECT_EQ(got[64 + t], lane + 3 < 32 ? t + 3 : t);
    EXPECT_EQ(got[128 + t], lane >= 30 ? t - 30 : t);
    EXPECT_EQ(got[192 + t], t / 32 * 32 + 7);
  }
}

TEST_F(EmulatedGpu, BarrierThatSomeThreadsMissIsAnError) {
  int* x = Put(std::vector<int>(64, 0));
  EXPECT_THAT(Run("if (threadIdx.x < 40) __syncthreads();", x, 2, 64),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("kernel k, block 0"),
                             HasSubstr("40 at a barrier"),
                             HasSubstr("24 at the end, first thread 40"))));
  // Later launches are not affected.
  ASSERT_OK(Run("__syncthreads(); x[threadIdx.x] = 1;", x, 1, 64));
  EXPECT_THAT(Get(x, 64), Each(1));
}

TEST_F(EmulatedGpu, ShuffleThatSomeLanesMissIsAnError) {
  int* x = Put(std::vector<int>(64, 0));
  EXPECT_THAT(
      Run("if (threadIdx.x % 32 != 3) {\n"
          "  x[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1, 1);\n}",
          x, 1, 64),
      StatusIs(absl::StatusCode::kInternal, HasSubstr("62 at a shuffle")));
}

// Blocks alternate between two thread orders, so code that lacks a barrier
// cannot be right by chance.
TEST_F(EmulatedGpu, MissingBarrierGivesWrongResults) {
  int* x = Put(std::vector<int>(128, 0));
  ASSERT_OK(
      Run("__shared__ int shared[64];\n"
          "shared[threadIdx.x] = 7;\n"
          "x[blockIdx.x * 64 + threadIdx.x] = shared[63 - threadIdx.x];\n"
          "__syncthreads();",
          x, 2, 64));
  const std::vector<int> got = Get(x, 128);
  for (int block = 0; block < 2; ++block) {
    int wrong = 0;
    for (int i = 0; i < 64; ++i) wrong += got[64 * block + i] != 7;
    EXPECT_EQ(wrong, 32) << "block " << block;
  }
}

TEST_F(EmulatedGpu, SharedMemoryStartsAsNaN) {
  float* x = Put(std::vector<float>(64, 0));
  auto function =
      runtime_->Compile({"k",
                         "extern \"C\" __global__ void k(float* x) {\n"
                         "  __shared__ float shared[64];\n"
                         "  if (threadIdx.x > 0) shared[threadIdx.x] = 1;\n"
                         "  __syncthreads();\n"
                         "  x[threadIdx.x] = shared[threadIdx.x];\n}\n"});
  ASSERT_OK(function);
  void* arguments[] = {&x};
  runtime_->Launch(**function, {.blocks = 1, .threads = 64}, arguments);
  ASSERT_OK(runtime_->Synchronize());
  const std::vector<float> got = Get(x, 64);
  EXPECT_TRUE(std::isnan(got[0]));
  EXPECT_EQ(got[1], 1);
}

TEST_F(EmulatedGpu, CompileErrorContainsTheCompilersMessage) {
  int* x = Put(std::vector<int>(32, 0));
  EXPECT_THAT(Run("x[0] = no_such_name;", x, 1, 32),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("kernel k"), HasSubstr("text  "),
                             HasSubstr("no_such_name"))));
  EXPECT_OK(runtime_->Synchronize()) << "reported once";
}

// Kernels are compiled together; one with an error does not affect the others.
TEST_F(EmulatedGpu, BadKernelDoesNotAffectOthers) {
  int* x = Put(std::vector<int>(32, 0));
  auto bad = runtime_->Compile(
      {"bad", "extern \"C\" __global__ void bad(int* x) { nonsense; }\n"});
  auto good = runtime_->Compile(
      {"good", "extern \"C\" __global__ void good(int* x) { x[0] = 4; }\n"});
  ASSERT_OK(bad);
  ASSERT_OK(good);
  void* arguments[] = {&x};
  runtime_->Launch(**bad, {.blocks = 1, .threads = 32}, arguments);
  EXPECT_THAT(runtime_->Synchronize(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("nonsense")));
  runtime_->Launch(**good, {.blocks = 1, .threads = 32}, arguments);
  ASSERT_OK(runtime_->Synchronize());
  EXPECT_EQ(Get(x, 1)[0], 4);
}

// A library that another process left incomplete is compiled again.
TEST(HostCompilerTest, DamagedLibraryIsReplaced) {
  const std::string folder =
      absl::StrCat(::testing::TempDir(), "/host_compiler.", getpid());
  const char* const before = std::getenv("MTF_CACHE_DIR");
  const std::string kept = before == nullptr ? "" : before;
  setenv("MTF_CACHE_DIR", folder.c_str(), /*overwrite=*/1);
  HostCompiler compiler;
  if (before == nullptr) {
    unsetenv("MTF_CACHE_DIR");
  } else {
    setenv("MTF_CACHE_DIR", kept.c_str(), 1);
  }
  const KernelSource source = {
      "k", "extern \"C\" __global__ void k(int* x) { x[0] = 7; }\n"};
  const std::string key = compiler.KeyOf(source);
  std::ofstream(absl::StrCat(folder, "/emulated/", key, ".so")) << "half";
  EXPECT_EQ(compiler.Find(key), nullptr);
  EXPECT_OK(compiler.Compile({source}));
  EXPECT_NE(compiler.Find(key), nullptr);
  std::filesystem::remove_all(folder);
}

TEST_F(EmulatedGpu, InvalidLaunchShapeIsAnError) {
  int* x = Put(std::vector<int>(32, 0));
  for (int threads : {0, 33, 2048}) {
    EXPECT_THAT(
        Run("x[0] = 1;", x, 1, threads),
        StatusIs(absl::StatusCode::kInternal, HasSubstr("cannot be launched")));
  }
}

TEST_F(EmulatedGpu, RecordedWorkRunsAtReplay) {
  int* x = Put(std::vector<int>(32, 1));
  int* y = Put(std::vector<int>(32, 0));
  ASSERT_OK(runtime_->BeginRecording());
  ASSERT_OK(Run("x[threadIdx.x] *= 3;", x, 1, 32));
  runtime_->CopyOnDevice(y, x, 32 * sizeof(int));
  auto recording = runtime_->EndRecording();
  ASSERT_OK(recording);
  EXPECT_EQ(Get(x, 32)[5], 1);
  ASSERT_OK((*recording)->Replay());
  ASSERT_OK((*recording)->Replay());
  ASSERT_OK(runtime_->Synchronize());
  EXPECT_EQ(Get(x, 32)[5], 9);
  EXPECT_EQ(Get(y, 32)[31], 9);
}

#if defined(__SANITIZE_ADDRESS__)
TEST_F(EmulatedGpu, AccessBeyondABufferIsDetected) {
  int* x = Put(std::vector<int>(32, 0));
  EXPECT_DEATH((void)Run("x[threadIdx.x + 1] = 1;", x, 1, 32),
               "AddressSanitizer: heap-buffer-overflow");
}
#endif

TEST_F(EmulatedGpu, HasNoNccl) {
  EXPECT_THAT(runtime_->NewNcclId(),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("NCCL")));
}

// Matmuls ---------------------------------------------------------------------

double Slope(double x) {
  const double h = 1e-5;
  const auto gelu = [](double at) {
    return EvaluateScalar(ScalarFunction::kGelu, at);
  };
  return (gelu(x + h) - gelu(x - h)) / (2 * h);
}

TEST_F(EmulatedGpu, MatmulsWithEveryEpilogueMatchLoops) {
  using Epilogue = MatmulProblem::Epilogue;
  constexpr int64_t kM = 3, kN = 8, kK = 5;
  std::vector<float> x(kM * kK), y(kK * kN), z(kM * kN), bias(kN),
      kept(kM * kN);
  const auto fill = [](std::vector<float>& values, float start) {
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = start + 0.25f * static_cast<float>(i * 7 % 11) - 1;
    }
  };
  fill(x, 0);
  fill(y, 0.1f);
  fill(z, 0.2f);
  fill(bias, 0.3f);
  fill(kept, 0.4f);
  for (Epilogue epilogue :
       {Epilogue::kNone, Epilogue::kBias, Epilogue::kGelu, Epilogue::kBiasGelu,
        Epilogue::kGeluSlope, Epilogue::kBiasOfSlope, Epilogue::kSumsOfX,
        Epilogue::kSumsOfY}) {
    for (bool transposed : {false, true}) {
      SCOPED_TRACE(absl::StrCat(static_cast<int>(epilogue), transposed));
      MatmulProblem problem;
      problem.m = kM, problem.n = kN, problem.k = kK;
      // x is stored as [k, m] if it is transposed.
      problem.x = {transposed, transposed ? kM : kK, 0};
      problem.y = {false, kN, 0};
      problem.z = {false, kN, 0};
      problem.alpha = 2, problem.beta = 0.5f;
      problem.epilogue = epilogue;
      const bool gelu =
          epilogue == Epilogue::kGelu || epilogue == Epilogue::kBiasGelu;
      problem.stores_gelu_input = gelu;
      float *gx = Put(x), *gy = Put(y), *gz = Put(z), *gbias = Put(bias),
            *gkept = Put(kept);
      auto matmul = runtime_->PrepareMatmul(problem);
      ASSERT_OK(matmul);
      (*matmul)->Run(
          {.x = gx, .y = gy, .z = gz, .bias = gbias, .gelu_input = gkept});
      ASSERT_OK(runtime_->Synchronize());
      const std::vector<float> got = Get(gz, z.size()),
                               kept_after = Get(gkept, kept.size()),
                               bias_after = Get(gbias, bias.size());
      for (int64_t n = 0; n < kN; ++n) {
        double column = 0;
        for (int64_t m = 0; m < kM; ++m) {
          double sum = 0;
          for (int64_t k = 0; k < kK; ++k) {
            sum += x[transposed ? k * kM + m : m * kK + k] * y[k * kN + n];
          }
          const int64_t at = m * kN + n;
          double want = 2 * sum + 0.5 * z[at];
          if (epilogue == Epilogue::kBias || epilogue == Epilogue::kBiasGelu) {
            want += bias[n];
          }
          if (gelu) {
            EXPECT_NEAR(kept_after[at], want, 1e-5);
            want = EvaluateScalar(ScalarFunction::kGelu, want);
          }
          if (epilogue == Epilogue::kGeluSlope ||
              epilogue == Epilogue::kBiasOfSlope) {
            want *= Slope(kept[at]);
          }
          EXPECT_NEAR(got[at], want, 1e-4) << m << " " << n;
          column += want;
        }
        if (epilogue == Epilogue::kBiasOfSlope) {
          EXPECT_NEAR(bias_after[n], column, 1e-4);
        }
      }
      // These sums are not scaled by alpha.
      const bool of_x = epilogue == Epilogue::kSumsOfX;
      if (!of_x && epilogue != Epilogue::kSumsOfY) continue;
      EXPECT_EQ(problem.bias_elements(), of_x ? kM : kN);
      for (int64_t i = 0; i < problem.bias_elements(); ++i) {
        double sum = 0;
        for (int64_t k = 0; k < kK; ++k) {
          sum += !of_x        ? y[k * kN + i]
                 : transposed ? x[k * kM + i]
                              : x[i * kK + k];
        }
        EXPECT_NEAR(bias_after[i], sum, 1e-5);
      }
    }
  }
}

TEST_F(EmulatedGpu, AddendIsNotReadIfBetaIsZero) {
  MatmulProblem problem;
  problem.z = problem.y = problem.x = {false, 1, 0};
  float *x = Put<float>({3}), *y = Put<float>({5}), *z = Put<float>({7}),
        *addend = Put<float>({11}), *poison = Put<float>({NAN});
  problem.beta = 1;
  auto adds = runtime_->PrepareMatmul(problem);
  problem.beta = 0;
  auto does_not = runtime_->PrepareMatmul(problem);
  ASSERT_OK(adds);
  ASSERT_OK(does_not);
  (*adds)->Run({.x = x, .y = y, .z = z, .addend = addend});
  EXPECT_THAT(Get(z, 1), ElementsAre(26));
  (*does_not)->Run({.x = x, .y = y, .z = z, .addend = poison});
  EXPECT_THAT(Get(z, 1), ElementsAre(15));
}

// Attention -------------------------------------------------------------------

// The gradients of sum(o * w) against finite differences of the forward pass.
TEST_F(EmulatedGpu, AttentionAndGradientsMatchDifferences) {
  AttentionProblem problem;
  problem.dtype = kFloat16;
  problem.batch = 2, problem.heads = 2, problem.length = 3, problem.memory = 4;
  problem.d = 5, problem.scale = 0.5f;
  // [batch, length, heads, d]
  problem.q = problem.o = {3 * 2 * 5, 5, 2 * 5};
  problem.k = problem.v = {4 * 2 * 5, 5, 2 * 5};
  const auto numbers = [](size_t count, int seed) {
    std::vector<Float16> values(count);
    for (size_t i = 0; i < count; ++i) {
      values[i] = ToFloat16(
          static_cast<float>((i * 13 + static_cast<size_t>(seed)) % 17) / 8 -
          1);
    }
    return values;
  };
  for (bool causal : {false, true}) {
    problem.causal = causal;
    const std::vector<Float16> q = numbers(60, 1), k = numbers(80, 4),
                               v = numbers(80, 9), w = numbers(60, 5);
    float* stats = Put(std::vector<float>(2 * 2 * 3));
    problem.backward = false;
    auto forward = runtime_->PrepareAttention(problem);
    problem.backward = true;
    auto backward = runtime_->PrepareAttention(problem);
    ASSERT_OK(forward);
    ASSERT_OK(backward);
    Float16 *o = Put(q), *d_q = Put(q), *d_k = Put(k), *d_v = Put(v);
    PreparedAttention::Buffers buffers = {
        .q = Put(q), .k = Put(k), .v = Put(v), .o = o, .stats = stats};
    (*forward)->Run(buffers);
    buffers.d_o = Put(w);
    buffers.d_q = d_q, buffers.d_k = d_k, buffers.d_v = d_v;
    (*backward)->Run(buffers);
    ASSERT_OK(runtime_->Synchronize());
    // The loss in double precision, by definition.
    const auto loss = [&](const std::vector<Float16>& query,
                          const std::vector<Float16>& key,
                          const std::vector<Float16>& value) {
      double sum = 0;
      for (int b = 0; b < 2; ++b) {
        for (int h = 0; h < 2; ++h) {
          for (int i = 0; i < 3; ++i) {
            double total = 0;
            std::vector<double> weights(4, 0);
            for (int j = 0; j < (causal ? i + 1 : 4); ++j) {
              double score = 0;
              for (int c = 0; c < 5; ++c) {
                score += ToFloat(query[b * 30 + i * 10 + h * 5 + c]) *
                         ToFloat(key[b * 40 + j * 10 + h * 5 + c]);
              }
              weights[j] = std::exp(0.5 * score);
              total += weights[j];
            }
            for (int j = 0; j < 4; ++j) {
              for (int c = 0; c < 5; ++c) {
                sum += weights[j] / total *
                       ToFloat(value[b * 40 + j * 10 + h * 5 + c]) *
                       ToFloat(w[b * 30 + i * 10 + h * 5 + c]);
              }
            }
          }
        }
      }
      return sum;
    };
    double direct = 0;
    const std::vector<Float16> out = Get(o, 60);
    for (int i = 0; i < 60; ++i) direct += ToFloat(out[i]) * ToFloat(w[i]);
    EXPECT_NEAR(direct, loss(q, k, v), 0.02);
    const auto check =
        [&](const std::vector<Float16>& values, Float16* got,
            const std::function<double(const std::vector<Float16>&)>& at) {
          const std::vector<Float16> slopes = Get(got, values.size());
          for (size_t i = 0; i < values.size(); i += 7) {
            std::vector<Float16> more = values, less = values;
            more[i] = ToFloat16(ToFloat(values[i]) + 0.015625f);
            less[i] = ToFloat16(ToFloat(values[i]) - 0.015625f);
            EXPECT_NEAR(ToFloat(slopes[i]), (at(more) - at(less)) / 0.03125,
                        5e-3)
                << i;
          }
        };
    check(q, d_q, [&](const auto& x) { return loss(x, k, v); });
    check(k, d_k, [&](const auto& x) { return loss(q, x, v); });
    check(v, d_v, [&](const auto& x) { return loss(q, k, x); });
  }
}

TEST_F(EmulatedGpu, AttentionNeedsSixteenBitFloats) {
  AttentionProblem problem;
  problem.dtype = kFloat32;
  EXPECT_THAT(
      runtime_->PrepareAttention(problem),
      StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("16-bit floats")));
}

}  // namespace
}  // namespace mtf::cuda
