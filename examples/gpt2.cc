// SPDX-License-Identifier: Apache-2.0
//
// Trains GPT-2 (Radford et al., 2019) with 124M to 1558M parameters on
// synthetic tokens or a file of tokens, and prints tokens per second,
// floating-point operations of the model per second, and the planned memory.
//
//   build/release/bin/gpt2 --model=tiny
//   build/release/bin/gpt2 --model=1558M --layout=zero3 --dry_run
//
// The model is nn/models/gpt2.h without dropout, and with a vocabulary padded
// to 50304. The distribution is text on the command line, as in every example.
#include "nn/models/gpt2.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "layouts/shard.h"
#include "layouts/text_items.h"
#include "lowering/program/program.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "nn/models/language_model.h"
#include "nn/optimizers/adam.h"
#include "nn/optimizers/schedules.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "train/data/random_windows.h"
#include "train/data/sources/mapped_file.h"
#include "train/data/sources/synthetic_tokens.h"
#include "train/data/sources/token_files.h"
#include "train/loop/flags.h"
#include "train/loop/logged_rate.h"
#include "train/loop/run_main.h"
#include "train/loop/trainer.h"
#include "train/loop/training_flags.h"

using mtf::train::Size;

ABSL_FLAG(std::string, model, "124M", "tiny, 124M, 350M, 774M or 1558M");
ABSL_FLAG(Size, batch, 4, "sequences in a step");
ABSL_FLAG(Size, length, 1024, "tokens in a sequence");
ABSL_FLAG(Size, loss_blocks, 1,
          "blocks of positions whose logits are computed one after the other, "
          "to hold fewer of them");
ABSL_FLAG(Size, experts, 1,
          "experts instead of each feed-forward layer, of which a token "
          "takes two; 1: no mixture of experts");
ABSL_FLAG(std::string, tokens, "",
          "files of tokens for training, with llm.c's header, or of 16 bits "
          "without; several by commas or as in 'train_*.bin'; empty: synthetic "
          "tokens");

namespace mtf {
namespace {

struct Sizes {
  const char* name;
  int64_t layers, d_model, heads, vocab;
};
constexpr Sizes kModels[] = {{"tiny", 2, 64, 2, 256},
                             {"124M", 12, 768, 12, 50304},
                             {"350M", 24, 1024, 16, 50304},
                             {"774M", 36, 1280, 20, 50304},
                             {"1558M", 48, 1600, 25, 50304}};

constexpr int64_t kTokens = 1 << 20;  // number of synthetic tokens

struct Model {
  Tensor tokens, targets, loss, step;
};

Model BuildModel(Graph& graph, const Sizes& sizes) {
  const Dimension batch{"batch", absl::GetFlag(FLAGS_batch)},
      length{"length", absl::GetFlag(FLAGS_length)};
  const PrecisionScope precision(graph, absl::GetFlag(FLAGS_precision));

  Model model;
  model.tokens = Input(graph, "tokens", kInt32, {batch, length});
  model.targets = Input(graph, "targets", kInt32, {batch, length});
  const nn::LanguageModel gpt2 =
      nn::Gpt2(model.tokens, {.vocab_size = sizes.vocab,
                              .n_positions = length.size,
                              .n_embd = sizes.d_model,
                              .n_layer = sizes.layers,
                              .n_head = sizes.heads,
                              .embd_pdrop = 0,
                              .attn_pdrop = 0,
                              .resid_pdrop = 0,
                              .experts = absl::GetFlag(FLAGS_experts)});
  std::vector<Tensor> losses;
  for (const nn::Experts& layer : gpt2.experts) {
    losses.push_back(0.01 * layer.load_balancing_loss + 0.001 * layer.z_loss);
  }
  model.loss = nn::LanguageModelLoss(
      gpt2, model.targets, {.blocks = absl::GetFlag(FLAGS_loss_blocks)});
  losses.push_back(model.loss);
  model.step = nn::AdamW({.learning_rate = train::LoggedRate(
                              nn::Schedule(absl::GetFlag(FLAGS_learning_rate)) *
                              nn::LinearWarmup(100)),
                          .beta2 = 0.95,
                          .weight_decay = 0.1})
                   .Minimize(AddN(losses));
  return model;
}

// The memory of a rank according to `plan`: variables and buffers of the step.
double PlannedMiB(const Program& program) {
  int64_t bytes = program.buffers.arena_bytes;
  for (const ProgramVariable& variable : program.variables) {
    bytes += LocalElements(program.grains, variable.shape, variable.layout) *
             DTypeSize(variable.dtype);
  }
  return static_cast<double>(bytes) / (1 << 20);
}

// The tokens of the files that `names` lists, or synthetic ones for "".
absl::StatusOr<std::shared_ptr<const train::TokenStream>> OpenTokens(
    const std::string& names, int64_t vocabulary, uint32_t seed) {
  if (names.empty()) {
    return train::SyntheticTokens::Create(kTokens, vocabulary, seed);
  }
  MTF_ASSIGN_OR_RETURN(const std::vector<std::string> files,
                       train::DataFiles(names));
  return train::TokenFiles::Open(files, {.vocabulary = vocabulary});
}

absl::Status Main() {
  const std::string name = absl::GetFlag(FLAGS_model);
  const auto* sizes =
      std::find_if(std::begin(kModels), std::end(kModels),
                   [&name](const Sizes& sizes) { return sizes.name == name; });
  if (sizes == std::end(kModels)) {
    return absl::InvalidArgumentError(
        absl::StrCat("no model is called ", Quoted(name),
                     DetailLine("models", "tiny, 124M, 350M, 774M, 1558M")));
  }
  Graph graph;
  const Model model = BuildModel(graph, *sizes);
  const train::RunRequest request = {.fetches = {model.loss},
                                     .updates = {model.step}};
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<train::Session> session,
                       train::StartSession(graph, request));

  const std::string path = absl::GetFlag(FLAGS_tokens);
  const uint32_t seed = absl::GetFlag(FLAGS_seed);
  MTF_ASSIGN_OR_RETURN(const auto tokens, OpenTokens(path, sizes->vocab, seed));
  const Shape& rows = model.tokens.shape();
  MTF_ASSIGN_OR_RETURN(const auto batches, train::RandomWindows::Create(
                                               tokens, rows[0], rows[1], seed));
  MTF_ASSIGN_OR_RETURN(
      const train::TrainingResult result,
      train::TrainWithFlags(
          *session,
          {.loss = model.loss,
           .update = model.step,
           .steps = absl::GetFlag(FLAGS_steps),
           .feeds = [&](int64_t step) { return batches->Batch(step); },
           .tokens_per_step = rows.num_elements(),
           .log_json = absl::GetFlag(FLAGS_log_json)}));

  // The convention of llm.c: 6 operations per parameter and token, plus those
  // of attention to half of the positions, as in a causal model. A token uses
  // two of the experts.
  int64_t parameters = 0;
  double used = 0;
  for (const VariableInfo& variable : graph.variables()) {
    if (variable.kind != VariableKind::kParameter) continue;
    const int64_t count = variable.shape.num_elements();
    parameters += count;
    used += variable.shape.Contains("experts")
                ? 2.0 * static_cast<double>(count) /
                      static_cast<double>(variable.shape.SizeOf("experts"))
                : static_cast<double>(count);
  }
  const double flops = 6.0 * used + 6.0 * sizes->layers * sizes->d_model *
                                        absl::GetFlag(FLAGS_length);
  MTF_ASSIGN_OR_RETURN(const Program* program, session->ProgramOf(request));
  const double rate = rows.num_elements() / result.median_step_s;
  train::Say(absl::StrFormat(
      "%s: %d parameters, %.0f FLOP/token (6 N + 6 L h T, causal)\n"
      "loss %.4f, %.3f ms/step, %.0f tokens/s, %.3f TFLOP/s of the model\n"
      "memory planned for each rank: %.1f MiB",
      name, parameters, flops, result.loss, 1e3 * result.median_step_s, rate,
      rate * flops / 1e12, PlannedMiB(*program)));
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  return mtf::train::RunMain(argc, argv, "Trains GPT-2 and measures its speed.",
                             &mtf::Main);
}
