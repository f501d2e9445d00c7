// SPDX-License-Identifier: Apache-2.0
//
// Loading and exporting published weights: every layout, dtypes, errors.
#include "train/weights/load_weights.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/lower.h"
#include "nn/layers/dense.h"
#include "nn/optimizers/adam.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/matchers.h"
#include "tests/train/checkpoint/temporary_folder.h"
#include "tests/train/weights/model_fixture.h"
#include "train/checkpoint/safetensors.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The tensors of the model in `folder`, by name.
std::map<std::string, HostTensor> TensorsIn(const std::string& path) {
  std::map<std::string, HostTensor> tensors;
  const auto set = SafetensorsSet::Open(path);
  EXPECT_OK(set);
  if (!set.ok()) return tensors;
  for (const std::string& name : (*set)->names()) {
    const auto value = (*set)->Read(name);
    if (value.ok()) tensors[name] = *value;
  }
  return tensors;
}

class ExportedModels : public ::testing::TestWithParam<std::string> {};

// What was loaded under one layout is written under another, bit by bit.
TEST_P(ExportedModels, HaveTheBitsOfTheFilesTheyWereLoadedFrom) {
  ModelFixture fixture(GetParam());
  const std::map<std::string, HostTensor> original =
      TensorsIn(fixture.weights());
  for (const char* layout : {"megatron", "zero3", "d_kv:model, vocab:data"}) {
    SCOPED_TRACE(layout);
    const TemporaryFolder folder;
    const auto session =
        fixture.Start("data:2,model:2", layout, fixture.weights());
    ASSERT_NE(session, nullptr);
    ASSERT_OK(
        ExportWeights(*session, fixture.model().weights, folder / "exported",
                      {.config = fixture.config(), .max_file_bytes = 30000}));
    EXPECT_EQ(FileText(folder / "exported/config.json"), fixture.config());
    const auto exported = TensorsIn(folder / "exported");
    for (const auto& [name, value] : original) {
      // Counters of batches, which the model does not have.
      if (value.dtype() == kInt64) continue;
      ASSERT_TRUE(exported.contains(name)) << name;
      EXPECT_EQ(exported.at(name), value) << name;
    }
    for (const auto& [name, value] : exported) {
      EXPECT_TRUE(original.contains(name)) << name;
    }
  }
}

// For tests/scripts/models_test.py, which lets the reference load what it finds
// in the folder.
TEST_P(ExportedModels, AreWrittenForTheReference) {
  const char* folder = std::getenv("MTF_EXPORT_FOLDER");
  if (folder == nullptr) GTEST_SKIP() << "MTF_EXPORT_FOLDER is not set";
  ModelFixture fixture(GetParam());
  const auto session =
      fixture.Start("data:2,model:3", "data_model", fixture.weights());
  ASSERT_NE(session, nullptr);
  ASSERT_OK(ExportWeights(
      *session, fixture.model().weights, absl::StrCat(folder, "/", GetParam()),
      {.config = fixture.config(), .max_file_bytes = 30000}));
}

INSTANTIATE_TEST_SUITE_P(All, ExportedModels, ::testing::ValuesIn(ModelNames()),
                         [](const auto& info) { return info.param; });

// A model of one layer, "dense", whose kernel is out x in in files.
class OneLayer : public ::testing::Test {
 protected:
  void Build(const Precision& precision, bool trains) {
    const PrecisionScope scope(graph_, precision);
    const Tensor x = Input(graph_, "x", kFloat32, {batch_, in_});
    const Tensor y = nn::Dense(x, {in_}, {out_});
    if (trains) {
      step_ = nn::AdamW({.average_decay = 0.9})
                  .Minimize(ReduceSum(Cast(y, kFloat32), {}));
    }
  }
  void Start(const std::string& mesh = "data:1",
             const std::string& layout = "") {
    ASSERT_OK(graph_.status());
    auto session = Session::Create(graph_, mesh, layout);
    ASSERT_OK(session);
    session_ = *std::move(session);
    ASSERT_OK(session_->Initialize());
  }
  // Writes "w" and "b" as `dtype`.
  std::string WriteFile(DType dtype, int64_t rows = 3) {
    const HostTensor w = HostTensor::FromDoubles({{"r", rows}, {"c", 2}}, dtype,
                                                 Numbers(rows * 2));
    const HostTensor b =
        HostTensor::FromDoubles({{"r", 3}}, dtype, {0.1, 0.2, 0.3});
    const std::string path = folder_ / "file.safetensors";
    std::remove(path.c_str());
    auto writer = SafetensorsWriter::Create(
        path, {{"model.w", dtype, {rows, 2}}, {"model.b", dtype, {3}}});
    EXPECT_OK(writer);
    EXPECT_OK((*writer)->Write("model.w", w));
    EXPECT_OK((*writer)->Write("model.b", b));
    EXPECT_OK((*writer)->Finish());
    return path;
  }
  static std::vector<double> Numbers(int64_t count) {
    std::vector<double> numbers;
    for (int64_t i = 0; i < count; ++i) numbers.push_back(1 + 0.1 * i);
    return numbers;
  }
  std::vector<double> Value(const std::string& name) {
    const auto value = session_->ReadVariable(name);
    EXPECT_OK(value);
    return value.ok() ? value->ToDoubles() : std::vector<double>();
  }

  const Dimension batch_{"batch", 2}, in_{"in", 2}, out_{"out", 3};
  const TemporaryFolder folder_;
  Graph graph_;
  Tensor step_;
  std::unique_ptr<Session> session_;
  nn::WeightMap map_ = {
      .rules = {{"dense/kernel", "w", "out in"}, {"dense/bias", "b"}},
      .prefix = "model."};
};

TEST_F(OneLayer, ConvertsDtypesAndTransposes) {
  Build({}, false);
  for (const DType dtype : {kFloat32, kBFloat16, kFloat16}) {
    Start("data:3", "out:data");
    const auto loaded = LoadWeights(*session_, map_, WriteFile(dtype));
    ASSERT_OK(loaded);
    EXPECT_EQ(loaded->parameters, 2);
    const auto at = [&](double x) { return RoundToDType(x, dtype); };
    EXPECT_THAT(Value("dense/kernel"), ElementsAre(at(1), at(1.2), at(1.4),
                                                   at(1.1), at(1.3), at(1.5)));
    EXPECT_THAT(Value("dense/bias"), ElementsAre(at(0.1), at(0.2), at(0.3)));
  }
}

TEST_F(OneLayer, SetsMasterCopiesAndAverages) {
  Build({.master = kFloat32, .parameters = kBFloat16}, true);
  Start("data:2", "zero3");
  ASSERT_OK(LoadWeights(*session_, map_, WriteFile(kFloat32)));
  const VariableInfo* kernel = nullptr;
  for (const VariableInfo& info : graph_.variables()) {
    if (info.name == "dense/kernel") kernel = &info;
  }
  ASSERT_NE(kernel, nullptr);
  ASSERT_GE(kernel->master, 0);
  ASSERT_GE(kernel->average, 0);
  const auto at = [](double x) { return RoundToDType(x, kBFloat16); };
  EXPECT_THAT(Value("dense/kernel"),
              ElementsAre(at(1), at(1.2), at(1.4), at(1.1), at(1.3), at(1.5)));
  for (const int id : {kernel->master, kernel->average}) {
    const auto f32 = [](double x) { return RoundToDType(x, kFloat32); };
    EXPECT_THAT(
        Value(graph_.variables()[id].name),
        ElementsAre(f32(1), f32(1.2), f32(1.4), f32(1.1), f32(1.3), f32(1.5)));
  }
}

// A session that loads all parameters draws no random numbers for them.
TEST_F(OneLayer, NeedsNoInitialValuesOfWhatIsLoaded) {
  Build({.master = kFloat32, .parameters = kBFloat16}, true);
  const std::string path = WriteFile(kFloat32);
  const auto loaded = LoadedVariables(graph_, map_, path);
  ASSERT_OK(loaded);
  EXPECT_EQ(loaded->size(), 6u);  // with master copies and averages
  Targets targets;
  targets.initialize = true;
  Start("data:2", "in:data");
  const auto counts_random = [&] {
    const auto program = Lower(graph_, session_->binding(), targets);
    EXPECT_OK(program);
    EXPECT_EQ(program->variables.size(), graph_.variables().size());
    return std::any_of(
        program->instructions.begin(), program->instructions.end(),
        [](const auto& each) { return each.opcode == Opcode::kRandom; });
  };
  EXPECT_TRUE(counts_random());
  for (const VariableInfo& info : graph_.variables()) {
    if (std::find(loaded->begin(), loaded->end(), info.name) != loaded->end()) {
      targets.set_by_caller.push_back(info.id);
    }
  }
  EXPECT_FALSE(counts_random());

  for (const char* layout : {"", "zero3", "out:data"}) {
    auto session = Session::Create(graph_, "data:2", layout);
    ASSERT_OK(session);
    session_ = *std::move(session);
    ASSERT_OK(session_->Initialize({.set_by_caller = *loaded}));
    EXPECT_EQ(Value("dense/kernel"), std::vector<double>(6, 0));
    ASSERT_OK(LoadWeights(*session_, map_, path));
    const std::vector<double> kernel = Value("dense/kernel");
    EXPECT_EQ(kernel[1], RoundToDType(1.2, kBFloat16));
    // State of the optimizer is there, and a step runs.
    const HostTensor x = HostTensor::Of<float>({batch_, in_}, {1, 2, 3, 4});
    ASSERT_OK(session_->Run({.feeds = {{"x", x}}, .updates = {step_}}));
    EXPECT_NE(Value("dense/kernel"), kernel);
  }
  EXPECT_THAT(
      session_->Initialize({.set_by_caller = {"dense/kernal"}}),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"dense/kernel\"")));
}

TEST_F(OneLayer, NamesTheTensorInErrors) {
  Build({}, false);
  Start();
  EXPECT_THAT(LoadWeights(*session_, map_, WriteFile(kFloat32, 4)).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("tensor \"model.w\"")));
  EXPECT_THAT(LoadWeights(*session_, map_, WriteFile(kInt32)).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("needs F32, BF16 or F16")));
  EXPECT_THAT(LoadWeights(*session_, map_, folder_ / "none").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none")));
  nn::WeightMap other = map_;
  other.rules[1].tensor = "bias";
  const std::string path = WriteFile(kFloat32);
  EXPECT_THAT(LoadWeights(*session_, other, path).status(),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("no tensor \"model.bias\" is in")));
  const auto partial = LoadWeights(*session_, other, path, {.partial = true});
  ASSERT_OK(partial);
  EXPECT_THAT(partial->missing, ElementsAre("dense/bias"));
  EXPECT_THAT(partial->unused, ElementsAre("model.b"));
  other.ignored = {"b"};
  other.rules[1].tensor = "w";
  other.rules[1].dims = "out";
  EXPECT_THAT(LoadWeights(*session_, other, path).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("")));
  other.rules.pop_back();
  EXPECT_THAT(LoadWeights(*session_, other, path).status(),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("parameter \"dense/bias\"")));
  EXPECT_THAT(
      LoadWeights(*session_, {.rules = map_.rules}, path).status(),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("no tensor \"w\"")));
}

TEST_F(OneLayer, RejectsTensorsThatNothingUses) {
  Build({}, false);
  Start();
  const std::string path = WriteFile(kFloat32);
  map_.rules[1].tensor = "w";
  map_.rules[1].dims = "(0/1 out)";
  const absl::Status status = LoadWeights(*session_, map_, path).status();
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("")));
}

// A head that files have although the model ties it must be the embedding.
TEST_F(OneLayer, RejectsCopiesThatDiffer) {
  Build({}, false);
  map_.copies = {{"head", "w"}};
  const auto load = [&](double last, int64_t rows, const std::string& layout,
                        bool partial) {
    Start("data:2", layout);
    const std::string path = folder_ / "copy.safetensors";
    std::remove(path.c_str());
    std::vector<double> head = Numbers(rows * 2);
    head.back() = last;
    auto writer =
        SafetensorsWriter::Create(path, {{"model.w", kFloat32, {3, 2}},
                                         {"model.b", kFloat32, {3}},
                                         {"model.head", kFloat32, {rows, 2}}});
    EXPECT_OK(writer);
    const auto write = [&](const std::string& name, int64_t size,
                           const std::vector<double>& values) {
      EXPECT_OK((*writer)->Write(
          name,
          HostTensor::FromDoubles(
              size == 0 ? Shape({{"r", 3}}) : Shape({{"r", size}, {"c", 2}}),
              kFloat32, values)));
    };
    write("model.w", 3, Numbers(6));
    write("model.b", 0, {0.1, 0.2, 0.3});
    write("model.head", rows, head);
    EXPECT_OK((*writer)->Finish());
    return LoadWeights(*session_, map_, path, {.partial = partial}).status();
  };
  for (const char* layout : {"", "out:data", "in:data"}) {
    EXPECT_OK(load(Numbers(6).back(), 3, layout, false));
    EXPECT_THAT(load(7, 3, layout, false),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("tensor \"model.head\""),
                               HasSubstr("differs from \"model.w\""),
                               HasSubstr("\"tie_word_embeddings\""))));
    EXPECT_OK(load(7, 3, layout, true));
  }
  EXPECT_THAT(load(1, 4, "", false),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("tensor \"model.head\"")));
}

TEST_F(OneLayer, FindsOlderNamesAndNamesWithoutPrefix) {
  Build({}, false);
  Start();
  map_.prefix = "encoder.";
  map_.renamed_ends = {{"model.b", "b"}, {"model.w", "encoder.w"}};
  ASSERT_OK(LoadWeights(*session_, map_, WriteFile(kFloat32)));
  EXPECT_EQ(Value("dense/bias")[2], RoundToDType(0.3, kFloat32));
}

TEST_F(OneLayer, ExportsInAnotherDtypeAndOverNoFile) {
  Build({}, false);
  Start("data:2", "in:data");
  ASSERT_OK(LoadWeights(*session_, map_, WriteFile(kFloat32)));
  ASSERT_OK(
      ExportWeights(*session_, map_, folder_ / "out", {.dtype = kBFloat16}));
  const auto exported = TensorsIn(folder_ / "out");
  EXPECT_EQ(exported.at("model.w").dtype(), kBFloat16);
  EXPECT_EQ(exported.at("model.w").ToDoubles()[1],
            RoundToDType(1.1, kBFloat16));
  EXPECT_THAT(ExportWeights(*session_, map_, folder_ / "out"),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("")));
  EXPECT_THAT(
      ExportWeights(*session_, map_, folder_ / "ints", {.dtype = kInt32}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("")));
  map_.rules[1].dims = "(0/2 out)";
  EXPECT_THAT(
      ExportWeights(*session_, map_, folder_ / "half"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"model.b\"")));
}

}  // namespace
}  // namespace mtf::train
