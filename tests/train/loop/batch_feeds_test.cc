// SPDX-License-Identifier: Apache-2.0
//
// The loop reads the next batches while a step runs, and the run is the same
// with any number of threads.
#include "train/loop/batch_feeds.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/matchers.h"
#include "tests/run_command.h"
#include "tests/train/loop/memory_store.h"
#include "tests/train/loop/toy_training.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The batches that were read, in the order in which their reading ended.
class ReadBatches {
 public:
  void Add(int64_t batch) {
    const std::lock_guard<std::mutex> lock(mutex_);
    batches_.push_back(batch);
    changed_.notify_all();
  }
  // Whether `batch` is read within a minute.
  bool WaitFor(int64_t batch) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(1), [&] {
      return std::count(batches_.begin(), batches_.end(), batch) > 0;
    });
  }
  std::vector<int64_t> Sorted() {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<int64_t> sorted = batches_;
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int64_t> batches_;
};

HostTensor Goal(double last) {
  return HostTensor::FromDoubles({{"batch", 4}}, kFloat32, {3, 3, 3, last});
}

std::vector<int64_t> NumbersBelow(int64_t end) {
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < end; ++i) numbers.push_back(i);
  return numbers;
}

// A toy that records what it reads. Goals depend on the number of the batch.
struct ReadingToy {
  Graph graph;
  Toy toy{graph, 0.1, /*skip_non_finite=*/true};
  Training& training = toy.training;
  ReadBatches read;
  std::map<int64_t, double> spoiled;  // by batch: one goal of it
  std::unique_ptr<Session> session;
  std::vector<double> losses;

  ReadingToy(int64_t threads, int64_t steps) {
    training.steps = steps;
    training.reading.threads = threads;
    training.feeds = [this](int64_t batch) {
      const auto found = spoiled.find(batch);
      const double last = found == spoiled.end()
                              ? static_cast<double>(batch % 5)
                              : found->second;
      std::map<std::string, HostTensor> feeds = {{"goal", Goal(last)}};
      read.Add(batch);
      return feeds;
    };
    training.callbacks.push_back({.on_step = [this](const StepMetrics& step) {
      losses.push_back(step.loss);
      return absl::OkStatus();
    }});
    Open();
  }
  // Begins anew with a session of these options.
  void Open(const SessionOptions& options = {}) {
    auto made = Session::Create(graph, "data:2", "batch:data", options);
    EXPECT_OK(made);
    session = *std::move(made);
    EXPECT_OK(session->Initialize());
  }
};

// Each step waits for the two batches after it, which nobody would read if
// steps read their own.
TEST(BatchFeeds, AreReadBeforeTheirStep) {
  ReadingToy run(/*threads=*/1, /*steps=*/20);
  run.training.callbacks.push_back(
      {.on_step = [&](const StepMetrics& metrics) -> absl::Status {
        const int64_t last = std::min<int64_t>(metrics.step + 2, 19);
        if (run.read.WaitFor(last)) return absl::OkStatus();
        return absl::DeadlineExceededError(absl::StrCat("batch ", last));
      }});
  ASSERT_OK(Train(*run.session, run.training));
  EXPECT_EQ(run.read.Sorted(), NumbersBelow(20))
      << "each once, and none after the last";
}

TEST(BatchFeeds, AreTheSameWithAnyNumberOfThreads) {
  std::vector<double> expected;
  for (const int64_t threads : {0, 1, 3}) {
    SCOPED_TRACE(threads);
    ReadingToy run(threads, 40);
    // A batch that is skipped, and one that is rolled back.
    run.spoiled = {{7, std::numeric_limits<double>::infinity()}, {35, 1e4}};
    MemoryStates states;
    const SavedState state(run.graph);
    MemoryStore store(states, state, *run.session);
    run.training.saving = {.store = &store, .every = 10};
    run.training.guard = {.non_finite = Remedy::kSkip,
                          .spike = Remedy::kRollBack,
                          .spike_deviations = 100,
                          .spike_window = 20};
    ASSERT_OK(Train(*run.session, run.training));
    EXPECT_EQ(run.session->step(), 40);
    if (threads == 0) expected = run.losses;
    EXPECT_EQ(run.losses, expected);
  }
  // The 40 steps and those between the saved state and the spike.
  EXPECT_GT(expected.size(), 40u);
}

TEST(BatchFeeds, AnErrorEndsTheRunAtItsStep) {
  for (const int64_t threads : {0, 2}) {
    ReadingToy run(threads, 20);
    const auto feeds = run.training.feeds;
    run.training.feeds = [feeds](int64_t batch)
        -> absl::StatusOr<std::map<std::string, HostTensor>> {
      if (batch >= 7) return absl::DataLossError(absl::StrCat("bad ", batch));
      return feeds(batch);
    };
    EXPECT_THAT(Train(*run.session, run.training),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("bad 7")));
    EXPECT_EQ(run.session->step(), 7) << threads;
  }
}

TEST(BatchFeeds, ResumedRunsReadOnlyTheirBatches) {
  ReadingToy run(2, 20);
  ASSERT_OK(run.session->SetStep(12));
  ASSERT_OK(Train(*run.session, run.training));
  const std::vector<int64_t> read = run.read.Sorted();
  EXPECT_EQ(read, std::vector<int64_t>({12, 13, 14, 15, 16, 17, 18, 19}));
}

// The events of a trace called `name`.
std::vector<json> EventsOf(const json& trace, const std::string& name) {
  std::vector<json> found;
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] == name) found.push_back(event);
  }
  return found;
}

// The names of the rows of threads in a trace.
std::set<std::string> ThreadsOf(const json& trace) {
  std::set<std::string> names;
  for (const json& event : EventsOf(trace, "thread_name")) {
    names.insert(event["args"]["name"].get<std::string>());
  }
  return names;
}

double EndOf(const json& event) {
  return event["ts"].get<double>() + event["dur"].get<double>();
}

json TraceAt(const std::string& path) {
  std::ifstream file(path);
  return json::parse(file, nullptr, /*allow_exceptions=*/false);
}

// Batch 0 is read only when another thread reads batch 1, which waits for the
// end of step 0. So this step is within the second read.
TEST(BatchFeeds, ReadsAndWaitsAreInTheTrace) {
  const std::string path = mtf::testing::Temporary("reads.json");
  ReadingToy run(/*threads=*/2, /*steps=*/5);
  run.Open({.trace = path, .trace_steps = 3});
  ReadBatches begun, done;
  const auto feeds = run.training.feeds;
  run.training.feeds =
      [&](int64_t batch) -> absl::StatusOr<std::map<std::string, HostTensor>> {
    begun.Add(batch);
    if ((batch == 0 && !begun.WaitFor(1)) || (batch == 1 && !done.WaitFor(0))) {
      return absl::DeadlineExceededError(absl::StrCat("batch ", batch));
    }
    return feeds(batch);
  };
  run.training.callbacks.push_back({.on_step = [&](const StepMetrics& step) {
    done.Add(step.step);
    return absl::OkStatus();
  }});
  ASSERT_OK(Train(*run.session, run.training));
  const json trace = TraceAt(path);
  ASSERT_FALSE(trace.is_discarded());
  EXPECT_THAT(ThreadsOf(trace),
              ElementsAre("reader", "reader 2", "training loop"));
  // Two ranks take in the feeds of each step.
  std::vector<json> steps = EventsOf(trace, "feeds");
  ASSERT_EQ(steps.size(), 6u);
  double last_wait = 0;
  for (int batch = 0; batch < 3; ++batch) {
    SCOPED_TRACE(batch);
    const auto reads = EventsOf(trace, absl::StrCat("read batch ", batch));
    const auto waits = EventsOf(trace, absl::StrCat("wait for batch ", batch));
    ASSERT_EQ(reads.size(), 1u);
    ASSERT_EQ(waits.size(), 1u);
    EXPECT_EQ(reads[0]["cat"], "host");
    EXPECT_EQ(reads[0]["pid"], 0);
    EXPECT_NE(reads[0]["tid"], waits[0]["tid"]);
    EXPECT_GE(reads[0]["dur"], 0);
    // Times are rounded to a thousandth of a microsecond.
    EXPECT_LE(EndOf(reads[0]), EndOf(waits[0]) + 0.01);
    EXPECT_LE(last_wait, waits[0]["ts"].get<double>() + 0.01);
    last_wait = EndOf(waits[0]);
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_LE(last_wait, steps[2 * batch + rank]["ts"].get<double>() + 0.01);
    }
  }
  EXPECT_TRUE(EventsOf(trace, "wait for batch 3").empty()) << "not traced";
  const json read = EventsOf(trace, "read batch 1")[0];
  EXPECT_LE(read["ts"], steps[0]["ts"]);
  EXPECT_GE(EndOf(read), EndOf(steps[0]));
}

TEST(BatchFeeds, AreReadWithinTheWaitWithoutThreads) {
  const std::string path = mtf::testing::Temporary("no_reads.json");
  ReadingToy run(/*threads=*/0, /*steps=*/2);
  run.Open({.trace = path});
  ASSERT_OK(Train(*run.session, run.training));
  const json trace = TraceAt(path);
  ASSERT_FALSE(trace.is_discarded());
  EXPECT_THAT(ThreadsOf(trace), ElementsAre("training loop"));
  for (int batch = 0; batch < 2; ++batch) {
    const auto reads = EventsOf(trace, absl::StrCat("read batch ", batch));
    const auto waits = EventsOf(trace, absl::StrCat("wait for batch ", batch));
    ASSERT_EQ(reads.size(), 1u);
    ASSERT_EQ(waits.size(), 1u);
    EXPECT_EQ(reads[0]["tid"], waits[0]["tid"]);
    EXPECT_LE(waits[0]["ts"], reads[0]["ts"]);
    EXPECT_LE(EndOf(reads[0]), EndOf(waits[0]) + 0.01);
  }
}

TEST(BatchFeeds, InvalidOptionsAreErrors) {
  ReadingToy run(300, 20);
  EXPECT_THAT(Train(*run.session, run.training),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("by 300 threads, not by 0 to 256"),
                             HasSubstr("--readers"))));
  run.training.reading = {.ahead = 0};
  EXPECT_THAT(Train(*run.session, run.training),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("0 batches are to be read ahead")));
}

}  // namespace
}  // namespace mtf::train
