// SPDX-License-Identifier: Apache-2.0
//
// Decoding with keys and values cached in state variables gives the values of
// a pass over the complete sequence, and each step writes one row of a cache.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/program/count_costs.h"
#include "lowering/program/print_program.h"
#include "nn/attention/attention.h"
#include "nn/attention/cached_attention.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/variable.h"
#include "tests/lowering/written_to_variable.h"
#include "tests/matchers.h"
#include "tests/requirements.h"
#include "train/session/saved_state.h"
#include "train/session/session.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;

constexpr int kLayers = 2;
const Dimension kBatch{"batch", 3}, kLength{"length", 7}, kModel{"d_model", 6},
    kHeads{"heads", 4}, kKv{"d_kv", 2}, kMemory{"memory_length", 7},
    kNow{"now", 1};

nn::AttentionOptions Options(const Dimension& length) {
  return {.length = length,
          .heads = kHeads,
          .d_kv = kKv,
          .causal = true,
          .memory_length = kMemory};
}

// A network for complete sequences, and one for a position at a time that has
// its weights.
struct Decoder {
  Graph graph;
  Tensor all, full;      // an input and the result, along `length`
  Tensor now, position;  // inputs, along `now`
  Tensor next, step;     // the result for the position; writes the caches
  Tensor now_2, position_2, next_2, two_steps;  // two positions in one step

  // The position is one for each row of the batch, or one for all.
  explicit Decoder(bool per_row) {
    all = Input(graph, "all", kFloat32, {kBatch, kLength, kModel});
    {
      Scope scope(graph, "decoder");
      full = all;
      for (int layer = 0; layer < kLayers; ++layer) {
        full = full + nn::SelfAttention(full, Options(kLength));
      }
    }
    for (int layer = 0; layer < kLayers; ++layer) {
      caches.push_back(
          nn::CacheVariables(graph, {kBatch}, Options(kNow),
                             {.name = absl::StrCat("cache_", layer)}));
    }
    const Shape rows = per_row ? Shape({kBatch}) : Shape();
    const auto input = [&](const std::string& suffix, Tensor& x, Tensor& at) {
      x = Input(graph, "now" + suffix, kFloat32, {kBatch, kNow, kModel});
      at = Input(graph, "position" + suffix, kInt32, rows);
    };
    input("", now, position);
    input("_2", now_2, position_2);
    std::vector<nn::KeyValueCache> memory = caches;
    next = Decode(now, position, memory);
    step = Write(memory);
    next_2 = Decode(now_2, position_2, memory);
    two_steps = Write(memory);
  }

  Tensor Decode(Tensor x, Tensor at, std::vector<nn::KeyValueCache>& memory) {
    Scope scope(graph, "decoder", Scope::kReuse);
    for (nn::KeyValueCache& cache : memory) {
      const nn::CachedAttentionResult y =
          nn::CachedSelfAttention(x, cache, at, Options(kNow));
      cache = y.cache;
      x = x + y.output;
    }
    return x;
  }
  Tensor Write(const std::vector<nn::KeyValueCache>& memory) {
    std::vector<Tensor> writes;
    for (int layer = 0; layer < kLayers; ++layer) {
      writes.push_back(nn::WriteCache(caches[layer], memory[layer]));
    }
    return Group(graph, writes);
  }

  std::vector<nn::KeyValueCache> caches;
};

struct Case {
  std::string mesh, layout;
  int64_t row_bytes;  // of a cache, on each rank
  // Calls and bytes of the collectives of a step.
  std::string collectives;
  std::string backend = "cpu";
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.mesh << " " << c.layout << " on " << c.backend;
}

std::string CollectivesOf(const Program& program) {
  std::string text;
  for (const auto& [key, count] : CountCollectives(program)) {
    absl::StrAppend(&text, CollectiveName(key.first), " ",
                    program.mesh.AxisNames(ListOf(key.second)), " ",
                    count.first, "x ", count.second, "\n");
  }
  return text;
}

class CachedDecoding : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (GetParam().backend == "cuda_emulated") {
      SKIP_UNDER_SANITIZERS("many kernels");
    }
  }
  // Numbers for every position.
  static std::vector<double> Sequence() {
    std::vector<double> numbers;
    for (int i = 0; i < kBatch.size * kLength.size * kModel.size; ++i) {
      numbers.push_back(std::sin(0.7 * i + 0.3));
    }
    return numbers;
  }
  // Those of one position for each row of the batch.
  static HostTensor PositionsOf(const std::vector<double>& sequence,
                                const std::vector<int>& at) {
    std::vector<double> numbers;
    for (int b = 0; b < kBatch.size; ++b) {
      const auto* row = &sequence[(b * kLength.size + at[b]) * kModel.size];
      numbers.insert(numbers.end(), row, row + kModel.size);
    }
    return HostTensor::FromDoubles({kBatch, kNow, kModel}, kFloat32, numbers);
  }
  static HostTensor IndexOf(const std::vector<int>& at, bool per_row) {
    const std::vector<double> numbers(at.begin(),
                                      per_row ? at.end() : at.begin() + 1);
    return HostTensor::FromDoubles(per_row ? Shape({kBatch}) : Shape(), kInt32,
                                   numbers);
  }

  void Start(const Decoder& decoder) {
    auto made =
        Session::Create(decoder.graph, GetParam().mesh, GetParam().layout,
                        {.backend = GetParam().backend});
    ASSERT_OK(made);
    session_ = *std::move(made);
    ASSERT_OK(session_->Initialize());
    sequence_ = Sequence();
    const auto full = session_->Run(
        {.feeds = {{"all", HostTensor::FromDoubles({kBatch, kLength, kModel},
                                                   kFloat32, sequence_)}},
         .fetches = {decoder.full}});
    ASSERT_OK(full);
    full_ = (*full)[0].ToDoubles();
  }

  // Expects that `got` is the result of the complete pass at the positions.
  void ExpectPositions(const HostTensor& got, const std::vector<int>& at) {
    const std::vector<double> want = PositionsOf(full_, at).ToDoubles(),
                              have = got.ToDoubles();
    ASSERT_EQ(have.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(have[i], want[i], 1e-5) << "element " << i;
    }
  }
  void ExpectRowsWritten(const RunRequest& request, int64_t rows) {
    const auto program = session_->ProgramOf(request);
    ASSERT_OK(program);
    for (const char* name :
         {"cache_0/keys", "cache_1/keys", "cache_0/values", "cache_1/values"}) {
      EXPECT_EQ(mtf::testing::WrittenToVariable(**program, name),
                rows * GetParam().row_bytes)
          << name << "\n"
          << PrintProgram(**program);
    }
  }

  std::unique_ptr<Session> session_;
  std::vector<double> sequence_, full_;
};

TEST_P(CachedDecoding, GivesTheValuesOfACompletePass) {
  for (const bool per_row : {false, true}) {
    SCOPED_TRACE(per_row ? "a position per row" : "one position");
    Decoder decoder(per_row);
    Start(decoder);
    for (int i = 0; i < kLength.size + 2; ++i) {
      // Rows of the batch begin one step after another.
      std::vector<int> at(kBatch.size);
      for (int b = 0; b < kBatch.size; ++b) {
        at[b] = std::clamp<int>(per_row ? i - b : i, 0, kLength.size - 1);
      }
      const RunRequest request = {.feeds = {{"now", PositionsOf(sequence_, at)},
                                            {"position", IndexOf(at, per_row)}},
                                  .fetches = {decoder.next},
                                  .updates = {decoder.step}};
      const auto next = session_->Run(request);
      ASSERT_OK(next);
      ExpectPositions((*next)[0], at);
      if (i > 0) continue;
      ExpectRowsWritten(request, 1);
      EXPECT_EQ(CollectivesOf(**session_->ProgramOf(request)),
                GetParam().collectives);
    }
  }
}

TEST_P(CachedDecoding, TwoPositionsInOneStepWriteTwoRows) {
  Decoder decoder(/*per_row=*/true);
  Start(decoder);
  for (int i = 0; i + 1 < kLength.size; i += 2) {
    const std::vector<int> at(kBatch.size, i), after(kBatch.size, i + 1);
    const RunRequest request = {
        .feeds = {{"now", PositionsOf(sequence_, at)},
                  {"position", IndexOf(at, true)},
                  {"now_2", PositionsOf(sequence_, after)},
                  {"position_2", IndexOf(after, true)}},
        .fetches = {decoder.next, decoder.next_2},
        .updates = {decoder.two_steps}};
    const auto next = session_->Run(request);
    ASSERT_OK(next);
    ExpectPositions((*next)[0], at);
    ExpectPositions((*next)[1], after);
    if (i == 0) ExpectRowsWritten(request, 2);
  }
}

TEST_P(CachedDecoding, APositionOutOfRangeChangesNoCache) {
  Decoder decoder(/*per_row=*/true);
  Start(decoder);
  const std::vector<int> first(kBatch.size, 0);
  const RunRequest good = {.feeds = {{"now", PositionsOf(sequence_, first)},
                                     {"position", IndexOf(first, true)}},
                           .fetches = {decoder.next},
                           .updates = {decoder.step}};
  ASSERT_OK(session_->Run(good));
  const auto before = session_->ReadVariable("cache_1/keys");
  ASSERT_OK(before);
  RunRequest bad = good;
  bad.feeds["position"] = IndexOf({1, 1, 7}, true);
  bad.feeds["now"] = PositionsOf(sequence_, {1, 1, 1});
  EXPECT_THAT(session_->Run(bad),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("index 7 at [batch=2] of \"position\" is "
                                 "outside [0, 6]: 1 row of dimension "
                                 "\"memory_length\" of size 7 begins there")));
  const auto after = session_->ReadVariable("cache_1/keys");
  ASSERT_OK(after);
  EXPECT_EQ(before->ToDoubles(), after->ToDoubles());
}

// The fetched result, for the host: 2 rows of the batch of 6 floats.
constexpr char kResult[] = "all_gather data 1x 48\n";

// Each device writes those of the rows that it holds. Along a sharded memory,
// the softmax and the weighted sum are reduced; nothing is gathered.
INSTANTIATE_TEST_SUITE_P(
    Layouts, CachedDecoding,
    ::testing::Values(
        Case{"data:2", "", 3 * 4 * 2 * 4, ""},
        Case{"data:2", "batch:data", 2 * 4 * 2 * 4, kResult},
        Case{"model:2", "heads:model", 3 * 2 * 2 * 4,
             // Of each layer's result: 2 / 2 * 3 * 6 floats.
             "all_reduce model 2x 144\n"},
        Case{"seq:3", "memory_length:seq", 3 * 4 * 2 * 4,
             // In each layer, of the greatest logit, the sum and the weighted
             // sum of a row: 4 / 3 * (1 + 1 + 2) * 3 * 4 floats.
             "all_reduce seq 6x 512\n"},
        Case{"data:2,model:2", "batch:data, heads:model", 2 * 2 * 2 * 4,
             absl::StrCat("all_reduce model 2x 96\n", kResult)},
        Case{"data:2,seq:2", "batch:data, memory_length:seq", 2 * 4 * 2 * 4,
             absl::StrCat("all_reduce seq 6x 256\n", kResult)},
        Case{"model:2,seq:2", "heads:model, memory_length:seq", 3 * 2 * 2 * 4,
             "all_reduce model 2x 144\nall_reduce seq 6x 192\n"},
        Case{"data:2,seq:2", "batch:data, memory_length:seq", 2 * 4 * 2 * 4,
             absl::StrCat("all_reduce seq 6x 256\n", kResult), "reference"},
        Case{"data:2,seq:2", "batch:data, memory_length:seq", 2 * 4 * 2 * 4,
             absl::StrCat("all_reduce seq 6x 256\n", kResult),
             "cuda_emulated"}));

TEST(StateVariables, AreSavedOnlyOnRequest) {
  Decoder decoder(/*per_row=*/false);
  const SavedState model(decoder.graph);
  for (const std::string& name : model.names()) {
    EXPECT_THAT(name, HasSubstr("decoder/"));
  }
  Decoder other(/*per_row=*/false);
  const SavedState all(other.graph, {.state = true});
  EXPECT_EQ(all.names().size(), model.names().size() + 2 * kLayers);
}

}  // namespace
}  // namespace mtf::train
