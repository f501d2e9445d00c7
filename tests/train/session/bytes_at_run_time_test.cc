// SPDX-License-Identifier: Apache-2.0
//
// The calls and bytes that communicators count while a GPT trains equal those
// of the plan, under each layout of the literature on 2, 4 and 8 ranks, and the
// losses are those of one device.
#include <cmath>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/program/count_costs.h"
#include "tests/lowering/gpt_layers.h"
#include "tests/matchers.h"
#include "tests/repeats.h"
#include "tests/requirements.h"
#include "train/session/session.h"

namespace mtf::train {
namespace {

using testing::BuildGpt;
using testing::Gpt;
using testing::GptSizes;
namespace gpt_layouts = testing::gpt_layouts;

constexpr int kSteps = testing::Repeats(4, 2);

struct Training {
  std::vector<double> losses;
  CollectiveCounts counted, planned;  // of one step
};

GptSizes SmallSizes(DType dtype, DType parameters, int64_t experts) {
  GptSizes sizes;
  sizes.layers = 2;
  sizes.batch = 8;
  sizes.length = 16;
  sizes.d_model = 32;
  sizes.heads = 8;
  sizes.vocab = 64;
  sizes.biases = true;
  sizes.dtype = dtype;
  sizes.parameters = parameters;
  sizes.experts = experts;
  return sizes;
}

absl::StatusOr<Training> Train(absl::string_view mesh, absl::string_view layout,
                               const GptSizes& sizes) {
  Graph graph;
  const Gpt gpt = BuildGpt(graph, sizes);
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                       Session::Create(graph, mesh, layout,
                                       {.seed = 3, .ranks = RankKind::kLocal}));
  MTF_RETURN_IF_ERROR(session->Initialize());
  std::vector<double> tokens, targets;
  for (int64_t i = 0; i < sizes.batch * sizes.length; ++i) {
    tokens.push_back(static_cast<double>(i * i % 61));
    targets.push_back(static_cast<double>((i + 1) * (i + 1) % 61));
  }
  const RunRequest request = {
      .feeds = {{"tokens",
                 HostTensor::FromDoubles(gpt.tokens.shape(), kInt32, tokens)},
                {"targets", HostTensor::FromDoubles(gpt.targets.shape(), kInt32,
                                                    targets)}},
      .fetches = {gpt.loss},
      .updates = {gpt.step}};
  Training run;
  for (int step = 0; step < kSteps; ++step) {
    session->ResetCounts();
    MTF_ASSIGN_OR_RETURN(const std::vector<HostTensor> loss,
                         session->Run(request));
    run.losses.push_back(*loss[0].At(0));
    run.counted = session->counts();
  }
  MTF_ASSIGN_OR_RETURN(const Program* program, session->ProgramOf(request));
  for (const auto& [key, count] : CountCollectives(*program)) {
    run.planned[key] = {count.first, count.second};
  }
  return run;
}

struct Case {
  std::string name, layout, axes;  // "data", or "data,model"
  DType dtype = kFloat32, parameters = kFloat32;
  bool experts = false;

  friend void PrintTo(const Case& c, std::ostream* out) {
    *out << c.name << " in " << DTypeName(c.dtype) << " of "
         << DTypeName(c.parameters);
  }
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const auto& [dtype, parameters] :
       {std::pair(kFloat32, kFloat32), std::pair(kBFloat16, kFloat32),
        std::pair(kBFloat16, kBFloat16)}) {
    const auto add = [&, dtype = dtype, parameters = parameters](
                         const char* name, const char* layout, const char* axes,
                         bool experts = false) {
      cases.push_back({name, layout, axes, dtype, parameters, experts});
    };
    add("Data", gpt_layouts::kData, "data");
    add("ZeroOneAndTwo", gpt_layouts::kZero1, "data");
    // bf16 parameters change the bytes sent if they are replicated at rest.
    if (parameters == kBFloat16) continue;
    add("ZeroThree", gpt_layouts::kZero3, "data");
    add("Megatron", gpt_layouts::kMegatron, "model");
    add("Sequence", gpt_layouts::kSequence, "model");
    add("TwoAxes", gpt_layouts::kTwoAxes, "data,model");
    add("TwoAxesOfWeights", gpt_layouts::kTwoAxesOfWeights, "data,model");
    add("AllToAll", gpt_layouts::kAllToAll, "model");
    add("Experts", gpt_layouts::kExperts, "data", /*experts=*/true);
  }
  return cases;
}

// "data:8", or "data:4,model:2".
std::string MeshOf(const Case& c, int ranks) {
  return c.axes == "data,model"
             ? absl::StrCat("data:", ranks == 2 ? 2 : ranks / 2,
                            ",model:", ranks == 2 ? 1 : 2)
             : absl::StrCat(c.axes, ":", ranks);
}

class BytesAtRunTime : public ::testing::TestWithParam<Case> {};

TEST_P(BytesAtRunTime, EqualThePlanAndLossesEqualOneDevice) {
  const Case& c = GetParam();
  if (c.dtype == kBFloat16)
    SKIP_UNDER_THREAD_SANITIZER("a dtype changes no thread");
  const GptSizes sizes = SmallSizes(c.dtype, c.parameters, c.experts ? 8 : 0);
  const absl::StatusOr<Training> one = Train("", "", sizes);
  ASSERT_OK(one);
  EXPECT_TRUE(one->counted.empty());
  EXPECT_LT(one->losses.back(), one->losses.front());
  // Sums over ranks have another order; in bf16 their summands are also
  // rounded, by at most 2^-9.
  const double tolerance = c.dtype == kFloat32 ? 1e-5 : 4e-3;
  for (const int ranks : {2, 4, 8}) {
    const absl::StatusOr<Training> run =
        Train(MeshOf(c, ranks), c.layout, sizes);
    ASSERT_OK(run);
    EXPECT_FALSE(run->planned.empty());
    EXPECT_EQ(run->counted, run->planned) << ranks << " ranks";
    for (int step = 0; step < kSteps; ++step) {
      EXPECT_NEAR(run->losses[step], one->losses[step],
                  tolerance * one->losses[step])
          << ranks << " ranks, step " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, BytesAtRunTime, ::testing::ValuesIn(Cases()),
                         [](const ::testing::TestParamInfo<Case>& info) {
                           return absl::StrCat(
                               info.param.name, "_",
                               DTypeName(info.param.dtype), "_of_",
                               DTypeName(info.param.parameters));
                         });

}  // namespace
}  // namespace mtf::train
