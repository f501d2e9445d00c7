// SPDX-License-Identifier: Apache-2.0
//
// Session::WriteVariable and ReadVariable: values by name, under every layout.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mtf/precision_text.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/matchers.h"
#include "tests/train/small_lm.h"
#include "train/session/saved_state.h"
#include "train/session/session.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
const Dimension kRows{"rows", 5}, kColumns{"columns", 3};

std::unique_ptr<Session> Start(const Graph& graph, const std::string& mesh,
                               const std::string& layout) {
  auto session = Session::Create(graph, mesh, layout);
  EXPECT_OK(session);
  if (!session.ok()) return nullptr;
  EXPECT_OK((*session)->Initialize());
  return *std::move(session);
}

// An uneven matrix, so that shards have padding.
TEST(WriteVariable, SetsEveryShard) {
  for (const auto& [mesh, layout] :
       std::vector<std::pair<std::string, std::string>>{
           {"", ""},
           {"a:2", "rows:a"},
           {"a:3", "columns:a"},
           {"a:2,b:2", "rows:a, columns:b"},
           {"a:2,b:2", "rows:a+b"},
           {"a:4", "[parameters],rows:a"}}) {
    SCOPED_TRACE(absl::StrCat(mesh, " ", layout));
    Graph graph;
    const Tensor w =
        Variable(graph, "w", Ones(graph, kFloat32, {kRows, kColumns}));
    const Tensor sum = ReduceSum(w, {});
    const Tensor update = Assign(w, w + 1.0);
    const std::unique_ptr<Session> session = Start(graph, mesh, layout);
    ASSERT_NE(session, nullptr);
    HostTensor value({kRows, kColumns}, kFloat32);
    const auto elements = value.mutable_values<float>();
    ASSERT_OK(elements);
    for (size_t i = 0; i < elements->size(); ++i) {
      (*elements)[i] = static_cast<float>(i);
    }
    ASSERT_OK(session->WriteVariable("w", value));
    EXPECT_EQ(session->step(), 0);
    const auto read = session->ReadVariable("w");
    ASSERT_OK(read);
    EXPECT_EQ(read->ToDoubles(), value.ToDoubles());
    // Sums are not disturbed by the padding, and later steps start from it.
    EXPECT_EQ(*(*session->Run({.fetches = {sum}}))[0].At(0), 105);
    ASSERT_OK(session->Run({.updates = {update}}));
    EXPECT_EQ(*(*session->Run({.fetches = {sum}}))[0].At(0), 120);
    ASSERT_OK(session->WriteVariable("w", value));
    EXPECT_EQ(*(*session->Run({.fetches = {sum}}))[0].At(0), 105);
  }
}

// As loading a saved state, which sets masters and rounds parameters.
TEST(WriteVariable, SetsMasterCopies) {
  for (const char* precision : {"float32", "bfloat16", "mixed_bfloat16"}) {
    SCOPED_TRACE(precision);
    const auto start = [&](uint32_t seed, Graph& graph, SmallLm& model,
                           std::unique_ptr<SavedState>& state) {
      model = BuildSmallLm(graph, *ParsePrecision(precision));
      state = std::make_unique<SavedState>(graph);
      SessionOptions options;
      options.seed = seed;
      auto session =
          Session::Create(graph, "data:2,model:2", "data_model", options);
      EXPECT_OK(session);
      EXPECT_OK((*session)->Initialize());
      return *std::move(session);
    };
    Graph first, second;
    SmallLm model, other;
    std::unique_ptr<SavedState> state, other_state;
    const auto source = start(3, first, model, state);
    const auto target = start(4, second, other, other_state);
    const auto saved = state->Save(*source);
    ASSERT_OK(saved);
    EXPECT_FALSE(*other_state->Save(*target) == *saved);
    for (const auto& [name, value] : *saved) {
      ASSERT_OK(target->WriteVariable(name, value));
    }
    EXPECT_TRUE(*other_state->Save(*target) == *saved);
    for (const VariableInfo& info : first.variables()) {
      EXPECT_TRUE(*source->ReadVariable(info.name) ==
                  *target->ReadVariable(info.name))
          << info.name;
    }
  }
}

TEST(WriteVariable, WidensFloats) {
  Graph graph;
  Variable(graph, "w", Zeros(graph, kFloat32, {kColumns}));
  const auto session = Start(graph, "", "");
  ASSERT_NE(session, nullptr);
  ASSERT_OK(session->WriteVariable(
      "w", HostTensor::FromDoubles({kColumns}, kBFloat16, {1.5, 2, -3})));
  EXPECT_THAT(session->ReadVariable("w")->ToDoubles(),
              ::testing::ElementsAre(1.5, 2, -3));
}

TEST(WriteVariable, WrongValuesAreErrorsAndChangeNothing) {
  Graph graph;
  Variable(graph, "w", Ones(graph, kBFloat16, {kColumns}));
  Variable(graph, "count", Ones(graph, kInt32, {}));
  const auto session = Start(graph, "a:2", "columns:a");
  ASSERT_NE(session, nullptr);
  const auto write = [&](const std::string& name, const HostTensor& value) {
    return session->WriteVariable(name, value);
  };
  EXPECT_THAT(write("v", HostTensor({kColumns}, kBFloat16)),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"v\"")));
  EXPECT_THAT(write("coutn", HostTensor({}, kInt32)),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("did you mean \"count\"?")));
  EXPECT_THAT(
      write("w", HostTensor({kRows}, kBFloat16)),
      StatusIs(kInvalid, AllOf(HasSubstr("\"w\" has another shape"),
                               HasSubstr("rows=5"), HasSubstr("columns=3"))));
  EXPECT_THAT(write("w", HostTensor({kColumns}, kFloat32)),
              StatusIs(kInvalid, HasSubstr("from f32 to bf16")));
  EXPECT_THAT(write("count", HostTensor({}, kFloat32)),
              StatusIs(kInvalid, HasSubstr("from f32 to i32")));
  EXPECT_THAT(write("count", HostTensor::Of<int32_t>({}, {1, 2})),
              StatusIs(kInvalid, HasSubstr("\"count\": 2 values for the 1 ")));
  EXPECT_THAT(session->ReadVariable("w")->ToDoubles(), ::testing::Each(1));
  EXPECT_EQ(*session->ReadVariable("count")->At(0), 1);
}

TEST(WriteVariable, BeforeInitializeIsAnError) {
  Graph graph;
  Variable(graph, "w", Ones(graph, kFloat32, {kColumns}));
  const auto session = Session::Create(graph, "", "");
  ASSERT_OK(session);
  EXPECT_THAT((*session)->WriteVariable("w", HostTensor({kColumns}, kFloat32)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("Initialize()")));
}

TEST(WriteVariable, OfAMasterCopyNamesItsParameter) {
  Graph graph;
  BuildSmallLm(graph, *ParsePrecision("bfloat16"));
  const auto session = Start(graph, "", "");
  ASSERT_NE(session, nullptr);
  bool any = false;
  for (const VariableInfo& info : graph.variables()) {
    if (info.master_of < 0) continue;
    any = true;
    EXPECT_THAT(
        session->WriteVariable(info.name, HostTensor(info.shape, kFloat32)),
        StatusIs(kInvalid,
                 AllOf(HasSubstr("is the master copy of"),
                       HasSubstr(graph.variables()[info.master_of].name))));
  }
  EXPECT_TRUE(any);
}

}  // namespace
}  // namespace mtf::train
