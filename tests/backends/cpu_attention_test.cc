// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/threads.h"
#include "gtest/gtest.h"
#include "tests/backends/cpu_attention_case.h"
#include "tests/backends/garbage.h"
#include "tests/matchers.h"
#include "tests/repeats.h"
#include "tests/requirements.h"

namespace mtf::cpu {
namespace {

using Case = AttentionCase;
using Row = AttentionRow;
using Tensors = AttentionTensors;
using mtf::testing::Garbage;

void RunKernel(absl::StatusOr<std::unique_ptr<Kernel>> kernel) {
  ASSERT_OK(kernel);
  StepContext context;
  context.seed = kSeed;
  context.step = kStep;
  (*kernel)->Run(context);
}

// What a tensor should be, and the sums of the absolute values of which its
// elements are sums, which bound the rounding errors.
struct Expected {
  explicit Expected(const TestTensor& tensor)
      : value(tensor.elements()), size(tensor.elements()) {}
  void Add(int64_t offset, double x, double absolute) {
    value[offset] += x;
    size[offset] += absolute;
  }
  std::vector<double> value, size;
};

// The largest error relative to the sum of absolute values.
double Tolerance(const Case& c) { return c.dtype == kBFloat16 ? 1.5e-2 : 3e-5; }

// Compares the valid elements and checks that no other byte has changed.
void ExpectNear(const Case& c, const std::string& name,
                const TestTensor& tensor, const Expected& expected,
                Garbage garbage) {
  if (!tensor.given()) return;
  TestTensor untouched(c, tensor.dims().empty() ? "-" : tensor.dims(),
                       tensor.dtype(), garbage);
  const double rounding = tensor.dtype() == kFloat32    ? 1e-6
                          : tensor.dtype() == kBFloat16 ? 0x1p-8
                                                        : 0x1p-10;
  double worst = 0;
  std::string first;
  ForEach(c, tensor.dims(), [&](const Index& index) {
    const int64_t offset = tensor.OffsetOf(index);
    const double value = tensor.Get(index), want = expected.value[offset];
    std::memcpy(static_cast<char*>(untouched.data()) +
                    offset * DTypeSize(tensor.dtype()),
                static_cast<const char*>(tensor.data()) +
                    offset * DTypeSize(tensor.dtype()),
                DTypeSize(tensor.dtype()));
    if (value == want) return;
    const double error =
        std::abs(value - want) /
        (Tolerance(c) * expected.size[offset] + rounding * std::abs(want) +
         (tensor.dtype() == kFloat16 ? 1e-7 : 1e-12));
    if (error <= worst) return;
    worst = error;
    first = "";
    for (const int64_t i : index) first += " " + std::to_string(i);
    first += ": " + std::to_string(value) + " for " + std::to_string(want);
    if (std::isnan(error)) worst = kInf;
  });
  EXPECT_LE(worst, 1) << name << " at" << first;
  EXPECT_TRUE(tensor.bytes() == untouched.bytes())
      << name << ": padding has changed";
}

void CheckForward(const Case& c, Tensors& t, Garbage garbage) {
  const CpuAttention a = Bind(c, t);
  RunKernel(PrepareAttention(a));
  Expected output(t.output), logsumexp(t.logsumexp);
  ForEach(c, "bghl", [&](Index index) {
    const Row row = LogitsOf(c, t, a, index);
    logsumexp.Add(t.logsumexp.OffsetOf(index), row.logsumexp,
                  std::isinf(row.logsumexp) ? 1 : 1 + std::abs(row.logsumexp));
    for (int64_t j = 0; j < c.memory; ++j) {
      const double weight =
          WeightOf(row.logit[j], row.logsumexp) * row.factor[j];
      index[4] = j;
      for (index[6] = 0; index[6] < c.depth_v; ++index[6]) {
        const double x = weight * t.v.Get(index);
        output.Add(t.output.OffsetOf(index), x, std::abs(x));
      }
    }
  });
  ExpectNear(c, "output", t.output, output, garbage);
  ExpectNear(c, "logsumexp", t.logsumexp, logsumexp, garbage);
}

void CheckGradient(const Case& c, Tensors& t, Garbage garbage) {
  const CpuAttention a = Bind(c, t);
  RunKernel(PrepareAttentionGradient(a));
  Expected d_q(t.d_q), d_k(t.d_k), d_v(t.d_v), d_bias(t.d_bias),
      d_extra(t.d_extra_logit);
  ForEach(c, "bghl", [&](Index index) {
    Row row = LogitsOf(c, t, a, index);
    // As stored, so that the rounding of the results is not an error.
    const double logsumexp = t.logsumexp.Get(index);
    double delta = 0, delta_size = 0;
    for (index[6] = 0; index[6] < c.depth_v; ++index[6]) {
      const double x = t.output.Get(index) * t.d_output.Get(index);
      delta += x;
      delta_size += std::abs(x);
    }
    index[6] = 0;
    if (t.d_logsumexp.given()) {
      delta -= t.d_logsumexp.Get(index);
      delta_size += std::abs(t.d_logsumexp.Get(index));
    }
    if (t.extra_logit.given()) {
      const double weight = WeightOf(row.extra, logsumexp);
      d_extra.Add(t.d_extra_logit.OffsetOf(index), -weight * delta,
                  weight * delta_size);
    }
    for (int64_t j = 0; j < c.memory; ++j) {
      const double weight = WeightOf(row.logit[j], logsumexp);
      if (weight == 0) continue;
      index[4] = j;
      double d_weight = 0, d_weight_size = 0;
      for (index[6] = 0; index[6] < c.depth_v; ++index[6]) {
        const double d_output = t.d_output.Get(index);
        const double dropped = weight * row.factor[j];
        const double x = d_output * t.v.Get(index) * row.factor[j];
        d_weight += x;
        d_weight_size += std::abs(x);
        d_v.Add(t.d_v.OffsetOf(index), dropped * d_output,
                std::abs(dropped * d_output));
      }
      index[6] = 0;
      const double d_logit = weight * (d_weight - delta);
      const double size = weight * (d_weight_size + delta_size);
      if (t.bias.given()) d_bias.Add(t.d_bias.OffsetOf(index), d_logit, size);
      for (index[5] = 0; index[5] < c.depth_kv; ++index[5]) {
        const double factor = row.slope[j] * c.scale;
        const double q = t.q.Get(index) * factor;
        const double k = t.k.Get(index) * factor;
        d_q.Add(t.d_q.OffsetOf(index), d_logit * k, size * std::abs(k));
        d_k.Add(t.d_k.OffsetOf(index), d_logit * q, size * std::abs(q));
      }
      index[5] = 0;
    }
  });
  ExpectNear(c, "d_q", t.d_q, d_q, garbage);
  ExpectNear(c, "d_k", t.d_k, d_k, garbage);
  ExpectNear(c, "d_v", t.d_v, d_v, garbage);
  ExpectNear(c, "d_bias", t.d_bias, d_bias, garbage);
  ExpectNear(c, "d_extra_logit", t.d_extra_logit, d_extra, garbage);
}

// The results for other numbers of threads and other garbage must have the same
// bits.
void ExpectSameBits(const Case& c, const Tensors& first) {
  for (const int threads : {2, 3}) {
    UseThreads(threads);
    const Garbage garbage = threads == 2 ? Garbage::kHuge : Garbage::kZeros;
    Tensors other = MakeTensors(c, garbage);
    mtf::testing::FillStackAndHeap(garbage);
    const CpuAttention a = Bind(c, other);
    RunKernel(PrepareAttention(a));
    RunKernel(PrepareAttentionGradient(a));
    mtf::testing::StopFillingHeap();
    for (TestTensor Tensors::*member :
         {&Tensors::output, &Tensors::logsumexp, &Tensors::d_q, &Tensors::d_k,
          &Tensors::d_v, &Tensors::d_bias, &Tensors::d_extra_logit}) {
      const TestTensor &x = first.*member, &y = other.*member;
      if (!x.given()) continue;
      int64_t differences = 0;
      const int64_t size = DTypeSize(x.dtype());
      ForEach(c, x.dims(), [&](const Index& index) {
        const int64_t at = x.OffsetOf(index) * size;
        differences +=
            std::memcmp(static_cast<const char*>(x.data()) + at,
                        static_cast<const char*>(y.data()) + at, size) != 0;
      });
      EXPECT_EQ(differences, 0)
          << "with " << threads << " threads in " << x.dims();
    }
  }
  UseThreads(1);
}

void Check(const Case& c) {
  SCOPED_TRACE(::testing::PrintToString(c));
  UseThreads(1);
  Tensors tensors = MakeTensors(c, Garbage::kNans);
  CheckForward(c, tensors, Garbage::kNans);
  CheckGradient(c, tensors, Garbage::kNans);
  ExpectSameBits(c, tensors);
}

class CpuAttentionTest : public ::testing::TestWithParam<Case> {};

TEST_P(CpuAttentionTest, AgreesWithLoops) {
  if (GetParam().length * GetParam().memory > 50000) {
    SKIP_UNDER_THREAD_SANITIZER("many elements");
  }
  Check(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Cases, CpuAttentionTest,
    ::testing::Values(
        Case{}, Case{.dtype = kBFloat16}, Case{.dtype = kFloat16},
        Case{.length = 1, .memory = 1}, Case{.length = 0, .memory = 5},
        Case{.bias = "bghlm", .extra_logit = "h", .length = 5, .memory = 0},
        Case{.bias = "h", .extra_logit = "h", .batch = 0}, Case{.depth_kv = 0},
        Case{.depth_v = 0}, Case{.scale = 0},
        Case{.length = 300, .memory = 300, .causal = true},
        Case{.dtype = kBFloat16, .length = 300, .memory = 300, .causal = true},
        Case{.heads = 1, .length = 3, .memory = 700},
        Case{.batch = 1,
             .heads = 1,
             .length = 500,
             .memory = 400,
             .causal = true,
             .window = 33},
        Case{.q = "dhlb",
             .k = "hdmb",
             .v = "vbhm",
             .output = "lvhb",
             .length = 65,
             .memory = 130,
             .padding = 2},
        // Shared keys and values, of several gradients that are sums.
        Case{.q = "bghld",
             .k = "bgmd",
             .v = "bmv",
             .output = "bghlv",
             .groups = 2,
             .length = 65,
             .memory = 33},
        Case{.k = "md",
             .v = "bmhv",
             .bias = "lm",
             .length = 200,
             .memory = 200,
             .causal = true},
        Case{.bias = "l", .length = 40, .memory = 300},
        Case{.bias = "hm", .length = 200, .memory = 300},
        Case{.bias = "-", .extra_logit = "-", .length = 30, .memory = 40},
        Case{.bias = "bhlm",
             .bias_dtype = kBFloat16,
             .length = 130,
             .memory = 150,
             .causal = true,
             .window = 20},
        Case{.mask = "bm",
             .offset = "b",
             .extra_logit = "hl",
             .d_logsumexp = "bhl",
             .length = 65,
             .memory = 130,
             .causal = true,
             .soft_cap = 2,
             .dropout = 0.3},
        // Queries and keys that are shards of longer ones.
        Case{.length = 50,
             .memory = 60,
             .causal = true,
             .window = 40,
             .length_offset = 70,
             .memory_offset = 20},
        Case{.length = 20,
             .memory = 20,
             .causal = true,
             .length_offset = 0,
             .memory_offset = 100}));

std::string RandomDims(std::string letters, bool keep_all,
                       std::mt19937_64& random) {
  std::string dims;
  for (const char letter : letters) {
    if (keep_all || random() % 2 == 0) dims += letter;
  }
  std::shuffle(dims.begin(), dims.end(), random);
  return dims.empty() ? "-" : dims;
}

// Keys or values, which may lack outer dimensions.
std::string RandomKeyDims(char depth, std::mt19937_64& random) {
  std::string dims = RandomDims("bgh", random() % 2 == 0, random);
  if (dims == "-") dims.clear();
  dims += 'm';
  dims += depth;
  std::shuffle(dims.begin(), dims.end(), random);
  return dims;
}

Case RandomCase(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto chance = [&](int one_in) { return random() % one_in == 0; };
  const auto pick = [&](std::vector<int64_t> values) {
    return values[random() % values.size()];
  };
  Case c;
  c.seed = seed;
  c.dtype = std::array{kFloat32, kBFloat16, kFloat16}[random() % 3];
  c.bias_dtype = std::array{kFloat32, kBFloat16, kFloat16}[random() % 3];
  c.q = RandomDims("bghld", true, random);
  c.output = RandomDims("bghlv", true, random);
  c.k = RandomKeyDims('d', random);
  c.v = RandomKeyDims('v', random);
  if (chance(3)) c.mask = RandomDims("bghlm", chance(3), random);
  if (chance(3)) c.bias = RandomDims("bghlm", chance(3), random);
  if (chance(4)) c.offset = RandomDims("bgh", chance(3), random);
  if (chance(4)) c.extra_logit = RandomDims("bghl", chance(3), random);
  if (chance(3)) c.d_logsumexp = "bghl";
  c.batch = pick({1, 2, 3});
  c.groups = pick({1, 2});
  c.heads = pick({1, 2, 3});
  c.length = pick({1, 2, 3, 7, 33, 65, 130});
  c.memory = pick({1, 2, 3, 7, 32, 65, 130, 300});
  if (c.length * c.memory > 10000) c.batch = c.groups = 1;
  c.depth_kv = pick({1, 3, 8, 16, 20});
  c.depth_v = pick({1, 2, 8, 16, 17});
  c.causal = chance(2);
  if (chance(3)) c.window = pick({1, 5, 40, 200});
  c.scale = chance(8) ? -0.3 : 1 / std::sqrt(static_cast<double>(c.depth_kv));
  if (chance(4)) c.soft_cap = 1.5;
  if (chance(4)) c.dropout = std::array{0.1, 0.5, 0.9}[random() % 3];
  if (chance(3)) c.length_offset = pick({1, 20, 300});
  if (chance(4)) c.memory_offset = pick({1, 10, 100});
  if (chance(2)) c.padding = pick({1, 3});
  return c;
}

// Kernels run on a thread that has its number of threads, as those of a rank
// do.
class AttentionKernels : public ::testing::Test {
 protected:
  void SetUp() override { UseThreads(2); }
};

TEST_F(AttentionKernels, RandomCasesAgreeWithLoops) {
  const uint64_t seeds = testing::Repeats(240, 24);
  for (uint64_t seed = 1; seed <= seeds && !::testing::Test::HasFailure();
       ++seed) {
    Check(RandomCase(seed));
  }
}

TEST_F(AttentionKernels, RowWithoutKeysIsZeroAndHasNoGradient) {
  const Case c = {.mask = "bl", .d_logsumexp = "bghl"};
  Tensors t = MakeTensors(c, Garbage::kNans);
  ForEach(c, "bl", [&](const Index& index) { t.mask.Set(index, 0); });
  // The gradient of a logsumexp of -infinity may be anything.
  ForEach(c, "bghl", [&](const Index& index) {
    t.d_logsumexp.Set(index, std::numeric_limits<double>::quiet_NaN());
  });
  const CpuAttention a = Bind(c, t);
  RunKernel(PrepareAttention(a));
  RunKernel(PrepareAttentionGradient(a));
  ForEach(c, "bghl", [&](const Index& index) {
    EXPECT_EQ(t.logsumexp.Get(index), -kInf);
  });
  for (const TestTensor* tensor : {&t.output, &t.d_q, &t.d_k, &t.d_v}) {
    ForEach(c, tensor->dims(),
            [&](const Index& index) { EXPECT_EQ(tensor->Get(index), 0); });
  }
}

TEST_F(AttentionKernels, NaNOfAQueryStaysInItsRow) {
  for (const double value : {std::numeric_limits<double>::quiet_NaN(), kInf}) {
    const Case c = {.length = 140, .memory = 300};
    Tensors t = MakeTensors(c, Garbage::kZeros);
    Index bad = {};
    bad[3] = 70;
    t.q.Set(bad, value);
    RunKernel(PrepareAttention(Bind(c, t)));
    ForEach(c, "bhlv", [&](const Index& index) {
      const bool in_row = index[0] == 0 && index[2] == 0 && index[3] == 70;
      EXPECT_EQ(std::isnan(t.output.Get(index)), in_row);
    });
  }
}

TEST_F(AttentionKernels, BiasOfMinusInfinityMasks) {
  Case c = {.bias = "lm", .length = 65, .memory = 140};
  Tensors t = MakeTensors(c, Garbage::kNans);
  ForEach(c, "lm", [&](const Index& index) {
    if (index[3] % 5 == 0 || index[4] > 100) t.bias.Set(index, -kInf);
  });
  CheckForward(c, t, Garbage::kNans);
  CheckGradient(c, t, Garbage::kNans);
}

}  // namespace
}  // namespace mtf::cpu
