// SPDX-License-Identifier: Apache-2.0
//
// Saved under one mesh, layout and precision, restored under another.
#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layouts/layout_rules.h"
#include "mtf/precision_text.h"
#include "nn/layers/dense.h"
#include "nn/losses/mean_squared_error.h"
#include "nn/optimizers/adam.h"
#include "nn/optimizers/schedules.h"
#include "tests/matchers.h"
#include "tests/repeats.h"
#include "tests/requirements.h"
#include "tests/train/checkpoint/memory_file_system.h"
#include "tests/train/checkpoint/saved_values.h"
#include "tests/train/small_lm.h"
#include "train/checkpoint/checkpoint.h"

namespace mtf::train {
namespace {

using ::mtf::testing::Repeats;
using ::mtf::testing::ThoroughTests;
using Values = std::map<std::string, HostTensor>;

constexpr const char* kPrecisions[] = {"float32", "bfloat16", "mixed_bfloat16"};
// So small that most shards have several.
constexpr int64_t kBlockBytes = 1000;

struct LmRun {
  Graph graph;
  SmallLm model;
  std::unique_ptr<Session> session;
  TextDataset text = SmallText();

  LmRun(const std::string& precision, const std::string& mesh,
        const std::string& layout, const std::string& device = "cpu") {
    model = BuildSmallLm(graph, *ParsePrecision(precision));
    SessionOptions options;
    options.seed = 3;
    options.backend = device;
    auto made = Session::Create(graph, mesh, layout, options);
    EXPECT_OK(made);
    if (!made.ok()) return;
    session = *std::move(made);
    EXPECT_OK(session->Initialize());
  }
  double Step() {
    const auto feeds =
        TextFeeds(text, model.tokens, model.targets, 7)(session->step());
    EXPECT_OK(feeds);
    const auto loss = session->Run(
        {.feeds = *feeds, .fetches = {model.loss}, .updates = {model.step}});
    EXPECT_OK(loss);
    return loss.ok() ? *(*loss)[0].At(0) : 0;
  }
};

absl::Status SaveTo(Session& session, MemoryFileSystem& files,
                    const std::string& folder) {
  MTF_ASSIGN_OR_RETURN(const auto checkpointer,
                       Checkpointer::Open(session, {.folder = folder,
                                                    .asynchronous = false,
                                                    .block_bytes = kBlockBytes,
                                                    .files = &files}));
  return checkpointer->Save();
}

// The most bytes of the shards of one rank, without padding.
int64_t LargestRankBytes(Session& session) {
  std::mutex mutex;
  int64_t largest = 0;
  EXPECT_OK(session.OnEachRank([&](RankVariables& rank) {
    int64_t bytes = 0;
    for (const VariableShard& shard : rank.shards()) {
      bytes += shard.ValidShape().num_elements() * DTypeSize(shard.dtype);
    }
    const std::lock_guard<std::mutex> lock(mutex);
    largest = std::max(largest, bytes);
    return absl::OkStatus();
  }));
  return largest;
}

// Restores, and checks what each rank has held.
void RestoreFrom(Session& session, MemoryFileSystem& files,
                 const std::string& folder, bool in_place = false) {
  const auto restored = RestoreCheckpoint(
      session, folder, {.in_place = in_place, .files = &files});
  ASSERT_OK(restored);
  const int64_t shards = LargestRankBytes(session);
  // In place, beside the shards one that is copied because of its padding.
  EXPECT_LE(restored->bytes_held, (in_place ? 2 : 1) * shards + kBlockBytes);
}

// Every parameter is its master, rounded.
void CheckRounded(const Session& session, const Values& all) {
  for (const VariableInfo& info : session.graph().variables()) {
    if (info.master < 0) continue;
    const HostTensor& master =
        all.at(session.graph().variables()[info.master].name);
    EXPECT_TRUE(
        all.at(info.name) ==
        HostTensor::FromDoubles(master.shape(), info.dtype, master.ToDoubles()))
        << info.name;
  }
}

TEST(CheckpointLayouts, EveryPairOfPresetsAndPrecisions) {
  SKIP_UNDER_THREAD_SANITIZER("many layouts");
  MemoryFileSystem files;
  LmRun trained("float32", "", "");
  trained.Step();
  trained.Step();
  const Values expected = SavedValues(*trained.session);
  ASSERT_OK(SaveTo(*trained.session, files, "trained"));
  std::vector<std::unique_ptr<LmRun>> runs;
  for (const std::string& preset : LayoutRules::PresetNames()) {
    for (const char* precision : kPrecisions) {
      const int ranks = 2 + static_cast<int>(runs.size()) % 3;
      runs.push_back(std::make_unique<LmRun>(
          precision, LayoutRules::PresetMesh(preset, ranks)->ToString(),
          preset));
      RestoreFrom(*runs.back()->session, files, "trained");
      EXPECT_EQ(runs.back()->session->step(), 2);
      ASSERT_OK(SaveTo(*runs.back()->session, files,
                       absl::StrCat("run", runs.size() - 1)));
    }
  }
  for (size_t to = 0; to < runs.size(); ++to) {
    Session& session = *runs[to]->session;
    for (size_t from = 0; from < runs.size(); ++from) {
      // Of each pair of presets one pair of precisions; all are covered.
      if (!ThoroughTests() && from % 3 != (to + from / 3 + to / 3) % 3)
        continue;
      SCOPED_TRACE(absl::StrCat(from, " to ", to));
      ASSERT_OK(session.SetStep(0));
      RestoreFrom(session, files, absl::StrCat("run", from),
                  /*in_place=*/(from + to) % 2 == 0);
      ASSERT_TRUE(SavedValues(session) == expected);
    }
    CheckRounded(session, AllValues(session));
  }
}

TEST(CheckpointLayouts, EveryDevice) {
  MemoryFileSystem files;
  LmRun trained("bfloat16", "data:3", "zero3");
  trained.Step();
  const Values expected = AllValues(*trained.session);
  ASSERT_OK(SaveTo(*trained.session, files, "cpu"));
  for (const char* device : {"reference", "cuda_emulated"}) {
    LmRun run("bfloat16", "data:2,model:2", "data_model", device);
    RestoreFrom(*run.session, files, "cpu", /*in_place=*/true);
    EXPECT_TRUE(AllValues(*run.session) == expected) << device;
    ASSERT_OK(SaveTo(*run.session, files, device));
    LmRun again("bfloat16", "model:3", "megatron");
    RestoreFrom(*again.session, files, device);
    EXPECT_TRUE(AllValues(*again.session) == expected) << device;
  }
}

// A rank reads the blocks with its rows, whoever wrote them, and no others.
TEST(CheckpointLayouts, ARankReadsWhatItNeeds) {
  Graph graph;
  const Shape shape({{"rows", 64}, {"columns", 50}});
  Variable(graph, "w", Ones(graph, kFloat32, shape));
  const auto start = [&](const std::string& mesh) {
    auto session = Session::Create(graph, mesh, "rows:a, columns:b");
    EXPECT_OK(session);
    EXPECT_OK((*session)->Initialize());
    return *std::move(session);
  };
  MemoryFileSystem files;
  ASSERT_OK(SaveTo(*start("b:2"), files, "a"));
  const auto target = start("a:4");
  const int64_t before = files.bytes_read;
  const auto restored = RestoreCheckpoint(*target, "a", {.files = &files});
  ASSERT_OK(restored);
  const int64_t needed = 64 * 50 * 4 / 4;
  EXPECT_GE(restored->bytes_read, needed);
  EXPECT_LE(restored->bytes_read, needed + 2 * 2 * kBlockBytes);
  EXPECT_EQ(restored->bytes_held, needed + kBlockBytes);
  // Of all ranks, with the manifest and two headers.
  EXPECT_LE(files.bytes_read - before, 4 * restored->bytes_read + 3000);
}

// Random variables, meshes and layouts.
struct RandomModel {
  Graph graph;
  std::unique_ptr<Session> session;
  std::string description;
};

std::unique_ptr<Session> RandomSession(const Graph& graph,
                                       std::mt19937& random) {
  const char* const meshes[] = {"",        "x:2",     "x:3",     "x:4",
                                "x:2,y:2", "x:3,y:2", "x:2,y:3", "x:5"};
  const char* const axes[] = {"replicated", "x", "y", "x+y", "y+x"};
  for (int attempt = 0;; ++attempt) {
    const std::string mesh = meshes[random() % std::size(meshes)];
    std::string layout;
    for (const char* section : {"", "[parameters]", "[optimizer]"}) {
      absl::StrAppend(&layout, section, "\n");
      for (const char* dim : {"a", "b", "c", "d"}) {
        if (random() % 2 == 0) continue;
        absl::StrAppend(&layout, dim, ":", axes[random() % std::size(axes)],
                        "\n");
      }
    }
    auto session = Session::Create(graph, mesh, attempt < 50 ? layout : "");
    if (session.ok() && (*session)->Initialize().ok()) {
      return *std::move(session);
    }
    EXPECT_LT(attempt, 60) << session.status();
    if (attempt >= 60) return nullptr;
  }
}

void BuildRandomModel(Graph& graph, std::mt19937& random) {
  const DType dtypes[] = {kFloat32, kBFloat16, kFloat16, kInt32, kInt64, kBool};
  int64_t sizes[4];
  for (int64_t& size : sizes) size = 1 + random() % 9;
  const unsigned variables = 1 + random() % 4;
  for (unsigned i = 0; i < variables; ++i) {
    std::vector<Dimension> dims;
    for (int d = 0; d < 4; ++d) {
      if (random() % 2 == 0) {
        dims.push_back({std::string(1, static_cast<char>('a' + d)), sizes[d]});
      }
    }
    std::shuffle(dims.begin(), dims.end(), random);
    const DType dtype = dtypes[random() % std::size(dtypes)];
    const auto kind = static_cast<VariableKind>(random() % 3);
    Variable(graph, absl::StrCat("v", i), Zeros(graph, dtype, Shape(dims)),
             {.kind = kind, .trainable = false});
  }
}

TEST(CheckpointLayouts, RandomMeshesLayoutsAndSizes) {
  const int count = ThoroughTests() ? 2000 : Repeats(100, 20);
  for (int seed = 0; seed < count; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Graph graph;
    BuildRandomModel(graph, random);
    ASSERT_OK(graph.status());
    const auto source = RandomSession(graph, random);
    const auto target = RandomSession(graph, random);
    ASSERT_NE(source, nullptr);
    ASSERT_NE(target, nullptr);
    for (const VariableInfo& info : graph.variables()) {
      std::vector<double> values(info.shape.num_elements());
      for (double& value : values)
        value = random() % (info.dtype == kBool ? 2 : 199);
      ASSERT_OK(source->WriteVariable(
          info.name, HostTensor::FromDoubles(info.shape, info.dtype, values)));
    }
    MemoryFileSystem files;
    const auto checkpointer =
        Checkpointer::Open(*source, {.folder = "a",
                                     .asynchronous = seed % 2 == 0,
                                     .block_bytes = 8 << random() % 6,
                                     .files = &files});
    ASSERT_OK(checkpointer);
    ASSERT_OK((*checkpointer)->Save());
    ASSERT_OK((*checkpointer)->Wait());
    ASSERT_OK(VerifyCheckpoint("a/step_00000000", &files));
    ASSERT_OK(RestoreCheckpoint(*target, "a",
                                {.in_place = seed % 3 != 0, .files = &files}));
    const Values expected = AllValues(*source);
    ASSERT_TRUE(AllValues(*target) == expected);
    // As programs read it, too.
    const std::string& name = graph.variables()[0].name;
    const auto read = target->ReadVariable(name);
    ASSERT_OK(read);
    ASSERT_TRUE(*read == expected.at(name));
  }
}

// A model with everything that a step depends on: dropout, a schedule, moving
// averages and, in float16, a loss scale.
struct ResumedRun {
  Graph graph;
  Tensor x, loss, step;
  std::unique_ptr<Session> session;

  ResumedRun(const std::string& precision, const std::string& mesh,
             const std::string& layout, double decay_end = 20) {
    const PrecisionScope scope(graph, *ParsePrecision(precision));
    const Dimension batch{"batch", 6}, io{"io", 10}, hidden{"d_ff", 13};
    x = Input(graph, "x", kFloat32, {batch, io});
    const Tensor h = Dropout(Gelu(nn::Dense(x, {io}, {hidden})), 0.2);
    loss = nn::MeanSquaredError(nn::Dense(h, {hidden}, {io}), x);
    step = nn::AdamW({.learning_rate = 1e-2 * nn::LinearWarmup(4) *
                                       nn::CosineDecay(4, decay_end),
                      .max_gradient_norm = 1.0,
                      .average_decay = 0.9})
               .Minimize(loss);
    SessionOptions options;
    options.seed = 3;
    auto made = Session::Create(graph, mesh, layout, options);
    EXPECT_OK(made);
    if (!made.ok()) return;
    session = *std::move(made);
    EXPECT_OK(session->Initialize());
  }
  double Step() {
    std::vector<double> values(60);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<double>((i * 7 + 3 * session->step()) % 11) / 8;
    }
    const auto result = session->Run(
        {.feeds = {{"x", HostTensor::FromDoubles(x.shape(), kFloat32, values)}},
         .fetches = {loss},
         .updates = {step}});
    EXPECT_OK(result);
    return result.ok() ? *(*result)[0].At(0) : 0;
  }
};

// Ten steps equal five, a checkpoint, and five more.
TEST(CheckpointLayouts, ResumeIsExact) {
  for (const char* precision : {"float32", "bfloat16", "float16"}) {
    SCOPED_TRACE(precision);
    MemoryFileSystem files;
    ResumedRun whole(precision, "data:2", "zero3");
    std::vector<double> losses;
    for (int step = 0; step < 10; ++step) {
      if (step == 5) {
        ASSERT_OK(SaveTo(*whole.session, files, "a"));
      }
      losses.push_back(whole.Step());
    }
    const Values expected = AllValues(*whole.session);
    ResumedRun same(precision, "data:2", "zero3");
    same.Step();  // whatever a session did before is forgotten
    RestoreFrom(*same.session, files, "a");
    for (int step = 5; step < 10; ++step) {
      EXPECT_EQ(same.Step(), losses[step]) << step;
    }
    EXPECT_TRUE(AllValues(*same.session) == expected);
    if (precision != std::string("float32")) continue;
    ResumedRun other(precision, "data:2,model:2", "data_model");
    RestoreFrom(*other.session, files, "a");
    for (int step = 5; step < 10; ++step) {
      EXPECT_NEAR(other.Step(), losses[step], 1e-6 * losses[step]) << step;
    }
  }
}

// Five steps and fifty after a checkpoint, on more ranks and on fewer.
TEST(CheckpointLayouts, FiftyStepsOnOtherRanksHaveTheSameLosses) {
  constexpr int kSteps = 55;
  MemoryFileSystem files;
  ResumedRun whole("float32", "data:2", "zero3", kSteps);
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    if (step == 5) {
      ASSERT_OK(SaveTo(*whole.session, files, "a"));
    }
    losses.push_back(whole.Step());
  }
  for (const auto& [mesh, layout] :
       {std::pair("data:2,model:2", "data_model"), std::pair("", ""),
        std::pair("model:3", "megatron")}) {
    SCOPED_TRACE(layout);
    ResumedRun moved("float32", mesh, layout, kSteps);
    RestoreFrom(*moved.session, files, "a", /*in_place=*/true);
    for (int step = 5; step < kSteps; ++step) {
      EXPECT_NEAR(moved.Step(), losses[step], 1e-6 * losses[step]) << step;
    }
  }
}

}  // namespace
}  // namespace mtf::train
