// SPDX-License-Identifier: Apache-2.0
//
// How much memory a rank needs to load Llama 2 7B, or two layers of its size:
// its shards, and one more of them. The files are sparse and take no disk.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "backends/backend.h"
#include "backends/executor/variable_store.h"
#include "gtest/gtest.h"
#include "lowering/emit/layout_binding.h"
#include "lowering/lower.h"
#include "nn/layers/layer.h"
#include "nn/models/build_model.h"
#include "tests/matchers.h"
#include "tests/requirements.h"
#include "tests/train/checkpoint/temporary_folder.h"
#include "train/session/mesh_and_layout.h"
#include "train/session/rank_variables.h"
#include "train/weights/set_parameters.h"
#include "train/weights/weight_files.h"

namespace mtf::train {
namespace {

constexpr int64_t kMiB = 1 << 20;
// A block of a tensor as bf16 and as f32 (6 MiB), and the last, partly used
// pages of all shards (2 MiB for 32 layers); measured: 9.
constexpr int64_t kBlocks = 16 * kMiB;
// Of Llama 2 7B.
constexpr int64_t kVocab = 32000, kHidden = 4096, kInner = 11008;

std::string Llama2Config(int layers) {
  return absl::StrCat(R"({"model_type": "llama", "vocab_size": )", kVocab,
                      R"(, "hidden_size": )", kHidden,
                      R"(, "intermediate_size": )", kInner,
                      R"(, "num_hidden_layers": )", layers,
                      R"(, "num_attention_heads": 32, "rms_norm_eps": 1e-5})");
}

// Tensors of bf16 in a file that has hardly any data on the disk: all elements
// are 0, but the last one is 1.
class SparseFile {
 public:
  void Add(const std::string& name, std::vector<int64_t> sizes) {
    int64_t bytes = 2;
    std::string dims;
    for (const int64_t size : sizes) {
      bytes *= size;
      absl::StrAppend(&dims, dims.empty() ? "" : ", ", size);
    }
    absl::StrAppend(&header_, header_.empty() ? "{" : ", ", "\"", name,
                    R"(": {"dtype": "BF16", "shape": [)", dims,
                    R"(], "data_offsets": [)", bytes_, ", ", bytes_ + bytes,
                    "]}");
    bytes_ += bytes;
    names_.push_back(name);
  }
  const std::vector<std::string>& names() const { return names_; }

  void Write(const std::string& path) const {
    const std::string header = header_ + "}";
    char size[8];
    for (int i = 0; i < 8; ++i) size[i] = char(header.size() >> (8 * i));
    std::ofstream(path, std::ios::binary) << std::string(size, 8) << header;
    const int64_t total = 8 + static_cast<int64_t>(header.size()) + bytes_;
    ASSERT_EQ(truncate(path.c_str(), total - 2), 0);
    std::ofstream(path, std::ios::binary | std::ios::app)
        << std::string("\x80\x3f", 2);
  }

 private:
  std::string header_;
  int64_t bytes_ = 0;
  std::vector<std::string> names_;
};

// The weights of a Llama 2 of `layers` layers in files of four layers each,
// with an index, as they are published.
void WriteSparseLlama(const std::string& folder, int layers) {
  std::vector<SparseFile> files;
  for (int layer = 0; layer < layers; ++layer) {
    if (layer % 4 == 0) files.emplace_back();
    SparseFile& file = files.back();
    const std::string name = absl::StrCat("model.layers.", layer, ".");
    for (const char* linear : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
      file.Add(absl::StrCat(name, "self_attn.", linear, ".weight"),
               {kHidden, kHidden});
    }
    file.Add(name + "mlp.gate_proj.weight", {kInner, kHidden});
    file.Add(name + "mlp.up_proj.weight", {kInner, kHidden});
    file.Add(name + "mlp.down_proj.weight", {kHidden, kInner});
    file.Add(name + "input_layernorm.weight", {kHidden});
    file.Add(name + "post_attention_layernorm.weight", {kHidden});
  }
  files[0].Add("model.embed_tokens.weight", {kVocab, kHidden});
  files.back().Add("model.norm.weight", {kHidden});
  files.back().Add("lm_head.weight", {kVocab, kHidden});
  std::string index;
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string file =
        absl::StrFormat("model-%05d-of-%05d.safetensors", i + 1, files.size());
    files[i].Write(folder + "/" + file);
    for (const std::string& name : files[i].names()) {
      absl::StrAppend(&index, index.empty() ? "" : ", ", "\"", name, "\": \"",
                      file, "\"");
    }
  }
  std::ofstream(folder + "/model.safetensors.index.json")
      << "{\"weight_map\": {" << index << "}}";
}

// A field of /proc/self/status in bytes, such as "VmRSS"; -1 without it.
int64_t ProcessBytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    int64_t kib = 0;
    if (absl::StartsWith(line, field + ":") &&
        absl::SimpleAtoi(
            absl::StripSuffix(line.substr(field.size() + 1), " kB"), &kib)) {
      return kib << 10;
    }
  }
  return -1;
}

// Sets VmHWM to VmRSS; false where the system does not allow it.
bool ForgetPeak() {
  std::ofstream("/proc/self/clear_refs") << "5" << std::flush;
  const int64_t peak = ProcessBytes("VmHWM"), now = ProcessBytes("VmRSS");
  return peak >= 0 && now >= 0 && peak <= now + 4 * kMiB;
}

// Makes malloc return freed memory to the system: what it keeps of one load
// would hide what the next one needs.
void ReturnFreedMemory() {
#ifdef __GLIBC__
  ASSERT_EQ(mallopt(M_MMAP_THRESHOLD, kMiB / 2), 1);
  malloc_trim(0);
#endif
}

struct SparseCase {
  int layers;
  const char *mesh, *layout;
  std::vector<int64_t> ranks;
};

class SparseWeights : public ::testing::TestWithParam<SparseCase> {
 protected:
  // Builds the model, and the program that has its variables.
  void Build() {
    const PrecisionScope scope(graph_, {.parameters = kBFloat16});
    auto model = nn::BuildModel(graph_, "", Llama2Config(GetParam().layers),
                                {.batch = 8, .length = 8});
    ASSERT_OK(model);
    map_ = model->weights;
    const auto parsed =
        ParseMeshAndLayout(GetParam().mesh, GetParam().layout, 0);
    ASSERT_OK(parsed);
    const auto binding = BindLayout(graph_, parsed->mesh, parsed->rules);
    ASSERT_OK(binding);
    Targets targets;
    targets.initialize = true;
    for (const VariableInfo& info : graph_.variables()) {
      targets.set_by_caller.push_back(info.id);
    }
    auto program = Lower(graph_, *binding, targets);
    ASSERT_OK(program);
    program_ = *std::move(program);
    const auto all = nn::ResolveWeights(graph_, map_);
    ASSERT_OK(all);
    weights_ = *all;
  }

  const TemporaryFolder folder_;
  Graph graph_;
  nn::WeightMap map_;
  Program program_;
  std::vector<nn::ParameterWeights> weights_;
};

TEST_P(SparseWeights, NeedTheShardsOfARankAndOneTensor) {
  SKIP_UNDER_SANITIZERS("sanitizers have memory of their own");
  if (GetParam().layers > 2) {
    SKIP_UNLESS_THOROUGH("loads 7B parameters, 1.7 GiB a rank");
  }
  ReturnFreedMemory();
  if (!ForgetPeak()) GTEST_SKIP() << "the system keeps no peak of memory";
  WriteSparseLlama(folder_.path(), GetParam().layers);
  Build();
  const auto device = CreateDevice("cpu", {});
  ASSERT_OK(device);
  const auto files = WeightFiles::Open(folder_.path(), map_);
  ASSERT_OK(files);
  for (const nn::ParameterWeights& each : weights_) {
    ASSERT_OK((*files)->Check(each, graph_.variables()[each.variable].name));
  }
  EXPECT_TRUE((*files)->Unused(weights_).empty());
  const auto weights_of = WeightsByVariable(graph_, weights_);
  const int64_t tensor = 2 * kVocab * kHidden;  // the largest, in bytes
  for (const int64_t rank : GetParam().ranks) {
    VariableStore store(**device);
    RankVariables variables(rank, graph_, program_, **device, store,
                            /*in_host_memory=*/true);
    ASSERT_TRUE(ForgetPeak());
    const int64_t before = ProcessBytes("VmRSS");
    // As Session::Initialize does, so that what is read does not lie between
    // shards in memory.
    for (const ProgramVariable& variable : program_.variables) {
      ASSERT_OK(store.Find(program_, variable));
    }
    ASSERT_OK(SetRankParameters(graph_, **files, weights_of, variables));
    const int64_t peak = ProcessBytes("VmHWM") - before,
                  shards = store.device_bytes();
    // All parameters, an eighth of each but for the scales of norms.
    const int64_t parameters =
        GetParam().layers *
            (4 * kHidden * kHidden + 3 * kHidden * kInner + 2 * kHidden) +
        2 * kVocab * kHidden + kHidden;
    EXPECT_GE(shards, 2 * parameters / 8);
    EXPECT_LE(shards, 2 * parameters / 8 + kMiB);
    EXPECT_LE(peak, shards + tensor) << "rank " << rank;
    // One shard is read at a time, in the dtype of the parameter.
    EXPECT_LE(peak, shards + tensor / 8 + kBlocks) << "rank " << rank;
    RecordProperty("peak_MiB", static_cast<int>(peak / kMiB));
    RecordProperty("shards_MiB", static_cast<int>(shards / kMiB));
    if (rank != 7) continue;
    // The last element of the files is in the last shard of the head.
    const auto head = std::find_if(
        variables.shards().begin(), variables.shards().end(),
        [](const VariableShard& shard) { return shard.name == "head/kernel"; });
    ASSERT_NE(head, variables.shards().end());
    const auto value = variables.Read(*head);
    ASSERT_OK(value);
    EXPECT_EQ(value->ToDoubles().back(), 1);
    EXPECT_EQ(value->ToDoubles().front(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Llama2, SparseWeights,
    ::testing::Values(SparseCase{2, "model:8", "megatron", {0, 3, 7}},
                      SparseCase{2, "data:8", "zero3", {0, 7}},
                      SparseCase{32, "model:8", "megatron", {5}},
                      SparseCase{32, "data:8", "zero3", {5}}),
    [](const auto& info) {
      return absl::StrCat(info.param.layers, "_", info.param.layout);
    });

}  // namespace
}  // namespace mtf::train
