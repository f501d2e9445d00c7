// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include "backends/cuda/matmul/choose_matmul.h"

#include <cmath>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"
#include "tests/requirements.h"

namespace mtf::cuda {
namespace {

using Sizes = std::map<char, int64_t>;
using Call = MatmulCalls::Call;
using Matrix = MatmulProblem::Matrix;

// Dense row-major dimensions, one per letter.
std::vector<StridedDimension> Dense(const std::string& letters,
                                    const Sizes& sizes) {
  std::vector<StridedDimension> dims(letters.size());
  int64_t stride = 1;
  for (int i = static_cast<int>(letters.size()) - 1; i >= 0; --i) {
    dims[i] = {std::string(1, letters[i]), sizes.at(letters[i]), stride};
    stride *= dims[i].extent;
  }
  return dims;
}

EinsumPlan Plan(const std::string& x, const std::string& y,
                const std::string& z, const Sizes& sizes) {
  return PlanEinsum(Dense(x, sizes), Dense(y, sizes), Dense(z, sizes));
}

MatmulCalls Choose(const std::string& x, const std::string& y,
                   const std::string& z, const Sizes& sizes,
                   DType dtype = kFloat32, DType result = kFloat32) {
  return ChooseMatmul(Plan(x, y, z, sizes), dtype, result, 16);
}

const Sizes kGpt = {{'b', 8},  {'l', 256}, {'m', 256},  {'d', 768},
                    {'h', 12}, {'k', 64},  {'f', 3072}, {'v', 8192}};

TEST(ChooseMatmul, ProjectionIsOneCall) {
  const MatmulCalls calls = Choose("bld", "dhk", "blhk", kGpt, kBFloat16);
  EXPECT_EQ(calls.ToString(), "m 2048 n 768 k 768");
  ASSERT_EQ(calls.problems.size(), 1u);
  const MatmulProblem& problem = calls.problems[0];
  EXPECT_EQ(problem.dtype, kBFloat16);
  EXPECT_EQ(problem.result_dtype, kFloat32);
  EXPECT_EQ(problem.x, (Matrix{false, 768, 0, 16}));
  EXPECT_EQ(problem.y, (Matrix{false, 768, 0, 16}));
  EXPECT_EQ(problem.z, (Matrix{false, 768, 0, 16}));
  EXPECT_EQ(problem.beta, 0);
  EXPECT_THAT(calls.calls, ::testing::ElementsAre(Call{}));
}

TEST(ChooseMatmul, WeightGradientNeedsNoCopies) {
  const MatmulCalls calls = Choose("bld", "blf", "df", kGpt);
  EXPECT_EQ(calls.ToString(), "m 768 n 3072 k 2048");
  EXPECT_EQ(calls.problems[0].x, (Matrix{true, 768, 0, 16}));
  EXPECT_EQ(calls.problems[0].y, (Matrix{false, 3072, 0, 16}));
}

TEST(ChooseMatmul, LibraryIteratesOverLongestBatchLoop) {
  const MatmulCalls calls = Choose("blhk", "bmhk", "bhlm", kGpt);
  EXPECT_EQ(calls.ToString(), "8 x batch 12 m 256 n 256 k 64");
  EXPECT_EQ(calls.problems.size(), 1u);
  EXPECT_EQ(calls.problems[0].x, (Matrix{false, 768, 64, 16}));
  EXPECT_EQ(calls.problems[0].y, (Matrix{true, 768, 64, 16}));
  EXPECT_EQ(calls.problems[0].z, (Matrix{false, 256, 65536, 16}));
  EXPECT_EQ(calls.calls[1], (Call{0, 256 * 768, 256 * 768, 12 * 65536}));
}

TEST(ChooseMatmul, OutermostBatchIsOneCall) {
  EXPECT_EQ(Choose("bhlk", "bhmk", "bhlm", kGpt).ToString(),
            "batch 96 m 256 n 256 k 64");
}

TEST(ChooseMatmul, SumsOverSeveralCallsAccumulateInFloat32) {
  const Sizes sizes = {{'a', 2}, {'b', 4096}, {'m', 64}, {'n', 64}};
  const MatmulCalls wide = Choose("amb", "bna", "mn", sizes);
  EXPECT_EQ(wide.ToString(), "2 x m 64 n 64 k 4096, packs y");
  ASSERT_EQ(wide.problems.size(), 2u);
  EXPECT_EQ(wide.problems[0].beta, 0);
  EXPECT_EQ(wide.problems[1].beta, 1);
  EXPECT_EQ(wide.calls[1].problem, 1);
  const MatmulCalls narrow =
      Choose("amb", "bna", "mn", sizes, kBFloat16, kBFloat16);
  EXPECT_EQ(narrow.ToString(), "2 x m 64 n 64 k 4096, packs y, unpacks z");
  EXPECT_EQ(narrow.problems[0].result_dtype, kFloat32);
  EXPECT_EQ(narrow.unpack_z,
            (StridedCopy{kFloat32, kBFloat16, {{64 * 64, 1, 1}}}));
}

TEST(ChooseMatmul, OddOffsetsReduceTheAlignment) {
  // Rows of 3 bf16 numbers begin at multiples of 2 bytes only.
  const MatmulCalls calls =
      Choose("abmk", "bank", "abmn",
             {{'a', 3}, {'b', 5}, {'m', 9}, {'n', 7}, {'k', 3}}, kBFloat16);
  ASSERT_EQ(calls.calls.size(), 3u) << calls.ToString();
  EXPECT_EQ(calls.problems[0].x.alignment, 2);
  EXPECT_EQ(calls.problems[0].y.alignment, 2);
  EXPECT_EQ(calls.problems[0].z.alignment, 4);
}

TEST(ChooseMatmul, EmptySumNeedsNoCall) {
  EXPECT_TRUE(
      Choose("mk", "kn", "mn", {{'m', 4}, {'n', 3}, {'k', 0}}).calls.empty());
}

// The einsums of a GPT under every preset are one call without copies.
// Exceptions are the two einsums of attention and their gradients, whose heads
// are between length and d_kv: one call per example, or one in all if a rank
// has one head.
TEST(ChooseMatmul, EinsumsOfAGptAreOneCallEachUnderEveryPreset) {
  for (const std::string& preset : LayoutRules::PresetNames()) {
    SCOPED_TRACE(preset);
    Graph graph;
    const mtf::testing::Transformer model =
        mtf::testing::BuildTransformer(graph, {.layers = 1,
                                               .batch = 16,
                                               .length = 1024,
                                               .d_model = 768,
                                               .heads = 12,
                                               .d_kv = 64,
                                               .d_ff = 3072,
                                               .vocab = 50257,
                                               .dtype = kBFloat16});
    const int64_t ranks = preset == "single"       ? 1
                          : preset == "three_axes" ? 8
                                                   : 4;
    const auto program = mtf::testing::LowerPreset(
        graph, preset, ranks,
        {.fetches = {model.loss}, .updates = {model.step}});
    ASSERT_TRUE(program.ok()) << program.status();
    int einsums = 0, single_calls = 0;
    for (const Instruction& instruction : program->instructions) {
      if (instruction.opcode != Opcode::kEinsum) continue;
      ++einsums;
      const ProgramValue& x = program->values[instruction.operands[0]];
      const ProgramValue& z = program->values[instruction.results[0]];
      SCOPED_TRACE(z.name);
      const MatmulCalls calls = ChooseMatmul(
          *instruction.Get<EinsumAttributes>().plan, x.dtype, z.dtype, 16);
      EXPECT_FALSE(calls.pack_x || calls.pack_y || calls.unpack_z)
          << calls.ToString();
      EXPECT_EQ(calls.problems.size(), 1u) << calls.ToString();
      const bool attention = absl::StrContains(z.name, "dot_product");
      EXPECT_LE(calls.calls.size(), attention ? 16u : 1u) << calls.ToString();
      single_calls += calls.calls.size() == 1;
    }
    // 6 weights and 2 products of attention, each with two gradients; the
    // embedding's gradient is not an einsum.
    EXPECT_EQ(einsums, 3 * (4 + 2 + 2 + 1)) << preset;
    EXPECT_GE(single_calls, 3 * (4 + 2 + 1));
  }
}

// Random plans ---------------------------------------------------------------

double& At(std::vector<double>& numbers, int64_t index) {
  return numbers.at(static_cast<size_t>(index));
}

std::vector<double> Copied(const StridedCopy& copy, std::vector<double> from,
                           int64_t elements) {
  std::vector<double> to(elements, std::nan(""));
  const auto walk = [&](auto& self, size_t i, int64_t a, int64_t b) -> void {
    if (i == copy.loops.size()) {
      At(to, b) = At(from, a);
      return;
    }
    const StridedCopy::Loop& loop = copy.loops[i];
    for (int64_t j = 0; j < loop.extent; ++j) {
      self(self, i + 1, a + j * loop.from, b + j * loop.to);
    }
  };
  walk(walk, 0, 0, 0);
  return to;
}

int64_t ElementOffset(const Matrix& matrix, int64_t b, int64_t row,
                      int64_t column) {
  return b * matrix.batch_stride + (matrix.transposed
                                        ? column * matrix.leading + row
                                        : row * matrix.leading + column);
}

// Implements the contract of MatmulProblem.
void Multiply(const MatmulProblem& problem, const Call& call,
              std::vector<double>& x, std::vector<double>& y,
              std::vector<double>& z) {
  for (int64_t b = 0; b < problem.batch; ++b) {
    for (int64_t m = 0; m < problem.m; ++m) {
      for (int64_t n = 0; n < problem.n; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < problem.k; ++k) {
          sum += At(x, call.x + ElementOffset(problem.x, b, m, k)) *
                 At(y, call.y + ElementOffset(problem.y, b, k, n));
        }
        double& to = At(z, call.z + ElementOffset(problem.z, b, m, n));
        to = problem.alpha * sum + (problem.beta == 0 ? 0 : problem.beta * to);
      }
    }
  }
}

std::vector<double> Execute(const MatmulCalls& calls, std::vector<double> x,
                            std::vector<double> y, int64_t results) {
  if (calls.swapped) std::swap(x, y);
  if (calls.pack_x) x = Copied(*calls.pack_x, x, calls.pack_x->elements());
  if (calls.pack_y) y = Copied(*calls.pack_y, y, calls.pack_y->elements());
  std::vector<double> z(results, std::nan(""));
  for (const Call& call : calls.calls) {
    Multiply(calls.problems[call.problem], call, x, y, z);
  }
  return calls.unpack_z ? Copied(*calls.unpack_z, z, results) : z;
}

// Requirements of cuBLASLt on matrices.
void CheckMatrices(const MatmulCalls& calls) {
  std::set<std::string> seen;
  for (const MatmulProblem& p : calls.problems) {
    const auto check = [](const Matrix& matrix, int64_t rows, int64_t columns) {
      EXPECT_GE(matrix.leading, matrix.transposed ? rows : columns);
    };
    check(p.x, p.m, p.k);
    check(p.y, p.k, p.n);
    check(p.z, p.m, p.n);
    EXPECT_FALSE(p.z.transposed);
  }
  for (const Call& call : calls.calls) {
    const MatmulProblem& p = calls.problems[call.problem];
    EXPECT_EQ(call.x * DTypeSize(p.dtype) % p.x.alignment, 0);
    EXPECT_EQ(call.y * DTypeSize(p.dtype) % p.y.alignment, 0);
    EXPECT_EQ(call.z * DTypeSize(p.result_dtype) % p.z.alignment, 0);
  }
}

std::vector<double> Numbers(int64_t count, std::mt19937& random) {
  std::vector<double> numbers(count);
  for (double& number : numbers) number = static_cast<int>(random() % 19) - 9;
  return numbers;
}

int64_t Elements(const std::string& letters, const Sizes& sizes) {
  int64_t elements = 1;
  for (char letter : letters) elements *= sizes.at(letter);
  return elements;
}

TEST(ChooseMatmul, CallsOfRandomPlansMatchLoops) {
  SKIP_UNDER_SANITIZERS("hundreds of random plans");
  std::mt19937 random(11);
  int loops = 0, batches = 0, copies = 0, sweeps = 0, rounds = 0;
  while (rounds < 4000) {
    Sizes sizes;
    const std::string all = "bcmpnqklj";  // j is summed in x alone
    for (char letter : all) sizes[letter] = random() % 3 ? 1 + random() % 4 : 9;
    std::string x, y, z;
    const auto take = [&](const std::string& letters,
                          std::vector<std::string*> operands) {
      for (char letter : letters) {
        if (random() % 3 == 0) continue;
        for (std::string* operand : operands) {
          operand->insert(operand->begin() + random() % (operand->size() + 1),
                          letter);
        }
      }
    };
    take("bc", {&x, &y, &z});
    take("mp", {&x, &z});
    take("nq", {&y, &z});
    take("kl", {&x, &y});
    if (random() % 8 == 0) take("j", {&x});
    std::string space = z;
    for (char letter : x + y) {
      if (space.find(letter) == std::string::npos) space += letter;
    }
    if (Elements(space, sizes) > 30000) continue;  // takes too long
    ++rounds;
    const std::vector<double> vx = Numbers(Elements(x, sizes), random);
    const std::vector<double> vy = Numbers(Elements(y, sizes), random);
    std::vector<double> want(Elements(z, sizes), 0.0);
    std::map<char, int64_t> at;
    for (int64_t i = 0; i < Elements(space, sizes); ++i) {
      int64_t rest = i;
      for (auto letter = space.rbegin(); letter != space.rend(); ++letter) {
        at[*letter] = rest % sizes[*letter];
        rest /= sizes[*letter];
      }
      const auto offset = [&](const std::string& letters) {
        int64_t offset = 0;
        for (char letter : letters)
          offset = offset * sizes[letter] + at[letter];
        return offset;
      };
      want[offset(z)] += vx[offset(x)] * vy[offset(y)];
    }
    const EinsumPlan plan = Plan(x, y, z, sizes);
    const DType dtype = random() % 2 ? kBFloat16 : kFloat32;
    const DType result = random() % 2 ? dtype : kFloat32;
    const MatmulCalls calls = ChooseMatmul(plan, dtype, result, 16);
    ASSERT_EQ(Execute(calls, vx, vy, static_cast<int64_t>(want.size())), want)
        << x << "," << y << "->" << z << ": " << plan.ToString() << "; "
        << calls.ToString();
    CheckMatrices(calls);
    loops += calls.calls.size() > 1 && plan.outer_k.empty();
    batches += calls.problems[0].batch > 1;
    copies += calls.pack_x || calls.pack_y || calls.unpack_z;
    sweeps += calls.problems.size() > 1;
  }
  // Every kind occurred.
  EXPECT_GT(loops, 100);
  EXPECT_GT(batches, 100);
  EXPECT_GT(copies, 100);
  EXPECT_GT(sweeps, 100);
}

}  // namespace
}  // namespace mtf::cuda
