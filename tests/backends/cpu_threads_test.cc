// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "backends/cpu/matmul.h"
#include "backends/cpu/threads.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"

namespace mtf::cpu {
namespace {

TEST(CpuThreads, RangesCoverAllOnceAndRespectTheGrain) {
  for (const int threads : {1, 2, 3, 5, 2}) {
    UseThreads(threads);
    for (const int64_t count : {0, 1, 2, 7, 8, 100, 1001}) {
      for (const int64_t grain : {0, 1, 3, 50, 2000}) {
        std::vector<std::atomic<int>> times(count);
        ParallelFor(count, grain, [&](int64_t begin, int64_t end) {
          EXPECT_LT(begin, end);
          EXPECT_TRUE(end - begin >= grain || end - begin == count);
          for (int64_t i = begin; i < end; ++i) ++times[i];
        });
        for (const auto& time : times) EXPECT_EQ(time, 1);
      }
    }
  }
  UseThreads(1);
}

TEST(CpuThreads, InsideThereIsOneThread) {
  UseThreads(3);
  const int threads = NumThreads();
  if (std::getenv("OMP_THREAD_LIMIT") == nullptr) {
    EXPECT_EQ(threads, 3);
  }
  std::atomic<int> inner = 0;
  ParallelFor(12, 1, [&](int64_t begin, int64_t end) {
    EXPECT_EQ(NumThreads(), 1);
    const int self = ThreadIndex();
    EXPECT_TRUE(self >= 0 && self < 3) << self;
    ParallelFor(end - begin, 1, [&](int64_t b, int64_t e) {
      EXPECT_EQ(ThreadIndex(), self);
      inner += static_cast<int>(e - b);
    });
  });
  EXPECT_EQ(inner, 12);
  EXPECT_EQ(NumThreads(), threads);
  EXPECT_EQ(ThreadIndex(), 0);
  UseThreads(1);
}

// One thread does the work of another that has stopped in the middle of a piece
// and goes on only when all other pieces are done.
TEST(CpuThreads, DoTheWorkOfALateThread) {
  UseThreads(2);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> done = 0;
    std::atomic<bool> stopped = false;
    ParallelFor(8, 1, [&](int64_t begin, int64_t end) {
      if (ThreadIndex() == 1 && !stopped.exchange(true)) {
        const auto last =
            std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (done < 7 && std::chrono::steady_clock::now() < last) {
          std::this_thread::yield();
        }
        EXPECT_EQ(done, 7);
      }
      done += static_cast<int>(end - begin);
    });
    EXPECT_EQ(done, 8);
  }
  UseThreads(1);
}

// Ranks in one process have a pool each. Short loops follow each other before
// late threads have looked at the first.
TEST(CpuThreads, PoolsOfSeveralRanksDoNotMix) {
  const auto rank = [](int self) {
    UseThreads(3);
    for (int64_t i = 0; i < 3000; ++i) {
      const int64_t count = 1 + (i + self) % 17;
      std::atomic<int64_t> sum = 0;
      ParallelFor(count, 1, [&](int64_t begin, int64_t end) {
        for (int64_t j = begin; j < end; ++j) sum += j;
      });
      ASSERT_EQ(sum, count * (count - 1) / 2);
    }
  };
  std::vector<std::thread> ranks;
  for (int i = 0; i < 3; ++i) ranks.emplace_back(rank, i);
  for (std::thread& thread : ranks) thread.join();
}

// z of a product whose operands are small integers, so that sums are exact.
std::vector<float> Product(const MatmulSpec& spec, int threads) {
  UseThreads(threads);
  constexpr int kElements = 1 << 18;
  std::vector<float> x(kElements), y(kElements), z(kElements, -1);
  for (int i = 0; i < kElements; ++i) {
    x[i] = static_cast<float>(i % 7 - 3);
    y[i] = static_cast<float>(i % 5 - 2);
  }
  auto matmul = Matmul::Create(spec);
  EXPECT_OK(matmul);
  if (matmul.ok()) (*matmul)->Run(x.data(), y.data(), z.data());
  UseThreads(1);
  return z;
}

// Whether threads divide the batch, the rows or the columns, with ranges that
// are uneven.
TEST(CpuThreads, DivideProducts) {
  const auto matrices = [](int64_t batch, int64_t m, int64_t n, int64_t k,
                           bool x_transposed, bool y_transposed) {
    MatmulSpec spec;
    if (batch > 1) spec.batch.push_back({batch, m * k, k * n, m * n});
    spec.m = {m, x_transposed ? 1 : k, 0, n};
    spec.n = {n, 0, y_transposed ? k : 1, 1};
    spec.k = {k, x_transposed ? m : 1, y_transposed ? 1 : n, 0};
    return spec;
  };
  for (const bool x_transposed : {false, true}) {
    for (const bool y_transposed : {false, true}) {
      for (const MatmulSpec& spec :
           {matrices(1, 1009, 67, 31, x_transposed, y_transposed),
            matrices(1, 65, 1001, 40, x_transposed, y_transposed),
            matrices(7, 61, 47, 53, x_transposed, y_transposed),
            matrices(2, 300, 129, 64, x_transposed, y_transposed),
            matrices(3, 1, 33, 500, x_transposed, y_transposed)}) {
        const std::vector<float> one = Product(spec, 1);
        for (const int threads : {2, 3, 5}) {
          EXPECT_EQ(Product(spec, threads), one) << threads << " threads";
        }
      }
    }
  }
}

}  // namespace
}  // namespace mtf::cpu
