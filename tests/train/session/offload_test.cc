// SPDX-License-Identifier: Apache-2.0
//
// The section [offload] moves variables to host memory and changes no result.
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nn/layers/dense.h"
#include "nn/layers/embedding.h"
#include "nn/losses/cross_entropy.h"
#include "nn/optimizers/adam.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "planning/cost/lifetimes.h"
#include "tests/matchers.h"
#include "train/session/saved_state.h"
#include "train/session/session.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;

const Dimension kBatch{"batch", 5}, kVocab{"vocab", 11}, kModel{"d_model", 7},
    kHidden{"d_ff", 6};

struct OffloadModel {
  Graph graph;
  Tensor tokens = Input(graph, "tokens", kInt32, {kBatch});
  Tensor loss = Loss();
  Tensor step = nn::AdamW({.learning_rate = 0.05}).Minimize(loss);
  SavedState saved{graph};

  Tensor Loss() const {
    const Tensor x = nn::Embedding(tokens, kVocab, kModel);
    const Tensor y = nn::Dense(x, {kModel}, {kHidden}, {.activation = Tanh});
    return nn::CrossEntropy(
        nn::Dense(y, {kHidden}, {kModel}, {.name = "output"}), kVocab, tokens);
  }
  RunRequest Train(int step_number) const {
    std::vector<int32_t> ids;
    for (int i = 0; i < kBatch.size; ++i) {
      ids.push_back((3 * i + 5 * step_number) % 11);
    }
    return {.feeds = {{"tokens", HostTensor::Of<int32_t>({kBatch}, ids)}},
            .fetches = {loss},
            .updates = {step}};
  }
};

struct OffloadRun {
  std::vector<double> losses;
  SavedState::Values values;
};

// Trains for five steps. After two of them, the values are moved to another
// session of the layout.
absl::StatusOr<OffloadRun> TrainAndMove(const std::string& mesh,
                                        const std::string& layout,
                                        const std::string& backend) {
  OffloadModel model;
  const SessionOptions options = {.backend = backend, .seed = 3};
  MTF_ASSIGN_OR_RETURN(auto session,
                       Session::Create(model.graph, mesh, layout, options));
  MTF_RETURN_IF_ERROR(session->Initialize());
  OffloadRun run;
  for (int i = 0; i < 5; ++i) {
    if (i == 2) {
      MTF_ASSIGN_OR_RETURN(const auto values, model.saved.Save(*session));
      MTF_ASSIGN_OR_RETURN(auto other,
                           Session::Create(model.graph, mesh, layout, options));
      MTF_RETURN_IF_ERROR(other->Initialize());
      MTF_RETURN_IF_ERROR(model.saved.Load(*other, values));
      session = std::move(other);
      MTF_RETURN_IF_ERROR(session->SetStep(2));
    }
    MTF_ASSIGN_OR_RETURN(const auto fetched, session->Run(model.Train(i)));
    run.losses.push_back(*fetched[0].At(0));
  }
  MTF_ASSIGN_OR_RETURN(run.values, model.saved.Save(*session));
  return run;
}

TEST(Offload, ChangesNoResult) {
  const struct {
    const char *mesh, *layout;
  } layouts[] = {
      {"data:1", ""},
      {"data:2,model:2",
       "batch:data, vocab:model [parameters] d_model:data [optimizer] "
       "d_model:data"},
  };
  for (const char* backend : {"cpu", "reference", "cuda_emulated"}) {
    for (const auto& [mesh, layout] : layouts) {
      const absl::StatusOr<OffloadRun> plain =
          TrainAndMove(mesh, layout, backend);
      ASSERT_OK(plain);
      for (const char* items :
           {"optimizer", "parameters, optimizer", "embedding, output"}) {
        SCOPED_TRACE(absl::StrCat(backend, " ", mesh, " ", items));
        const absl::StatusOr<OffloadRun> offloaded = TrainAndMove(
            mesh, absl::StrCat(layout, " [offload] ", items), backend);
        ASSERT_OK(offloaded);
        EXPECT_EQ(offloaded->losses, plain->losses);
        EXPECT_TRUE(offloaded->values == plain->values);
      }
    }
  }
}

TEST(Offload, MovesMemoryToTheHost) {
  const auto bytes = [](const std::string& layout) {
    OffloadModel model;
    const auto session = Session::Create(model.graph, "data:1", layout, {});
    EXPECT_OK(session);
    const auto program = (*session)->ProgramOf(model.Train(0));
    EXPECT_OK(program);
    return std::pair(
        mtf::internal::MemoryBytes(**program) - (*program)->buffers.arena_bytes,
        mtf::internal::HostBytes(**program));
  };
  const auto [device, host] = bytes("");
  const auto [device_left, moved] = bytes("[offload] optimizer");
  EXPECT_EQ(host, 0);
  EXPECT_GT(moved, 0);
  EXPECT_EQ(device_left + moved, device);
  EXPECT_EQ(bytes("[offload] parameters, optimizer, state"),
            (std::pair<int64_t, int64_t>(0, device)));
}

TEST(Offload, AMisspeltItemIsAnErrorOfTheSession) {
  OffloadModel model;
  EXPECT_THAT(Session::Create(model.graph, "data:1", "[offload] optimiser", {})
                  .status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("did you mean \"optimizer\"?")));
}

}  // namespace
}  // namespace mtf::train
