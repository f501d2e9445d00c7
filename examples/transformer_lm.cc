// SPDX-License-Identifier: Apache-2.0
//
// Trains a decoder-only transformer on the bytes of a text and samples from it.
//
//   build/release/bin/transformer_lm
//   build/release/bin/transformer_lm --text=book.txt --layers=4 --steps=1000
//
// How tensors and work are distributed is text on the command line, and it does
// not change the results: examples/README.md. --help lists the flags.
#include <algorithm>
#include <memory>
#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "nn/attention/attention.h"
#include "nn/layers/dense.h"
#include "nn/layers/embedding.h"
#include "nn/layers/feed_forward.h"
#include "nn/layers/layer_norm.h"
#include "nn/losses/cross_entropy.h"
#include "nn/optimizers/adam.h"
#include "nn/optimizers/schedules.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "train/data/text_dataset.h"
#include "train/loop/flags.h"
#include "train/loop/logged_rate.h"
#include "train/loop/run_main.h"
#include "train/loop/text_sampler.h"
#include "train/loop/training_flags.h"

using mtf::train::Rate;
using mtf::train::Size;

ABSL_FLAG(Size, batch, 16, "windows of text per step");
ABSL_FLAG(Size, length, 64, "bytes in a window");
ABSL_FLAG(mtf::train::Depth, layers, 2, "transformer blocks");
ABSL_FLAG(Size, d_model, 128, "width of the residual stream");
ABSL_FLAG(Size, heads, 4, "attention heads in a block");
ABSL_FLAG(Size, d_kv, 32, "width of a head");
ABSL_FLAG(Size, d_ff, 512, "hidden units of a feed-forward layer");
ABSL_FLAG(Rate, weight_decay, 0.01, "decay of the parameters");
ABSL_FLAG(Size, warmup_steps, 100, "steps until the full learning rate");
ABSL_FLAG(std::string, prompt, "And God said", "beginning of the sample");
ABSL_FLAG(Size, sample_bytes, 300, "bytes to sample after the prompt");
ABSL_FLAG(Rate, temperature, 0.7, "of the sample; 1 is the model itself");

namespace mtf {
namespace {

struct Model {
  Tensor tokens, targets;  // [batch, length], fed in every step
  Tensor logits;           // [batch, length, vocab], for the next byte
  Tensor loss;             // mean cross entropy, in nats per byte
  Tensor step;             // one update of all parameters
};

Model BuildModel(Graph& graph) {
  const Dimension batch{"batch", absl::GetFlag(FLAGS_batch)};
  const Dimension length{"length", absl::GetFlag(FLAGS_length)};
  const Dimension d_model{"d_model", absl::GetFlag(FLAGS_d_model)};
  const Dimension heads{"heads", absl::GetFlag(FLAGS_heads)};
  const Dimension d_kv{"d_kv", absl::GetFlag(FLAGS_d_kv)};
  const Dimension d_ff{"d_ff", absl::GetFlag(FLAGS_d_ff)};
  const Dimension vocab{"vocab", train::TextDataset::kVocabularySize};

  const PrecisionScope precision(graph, absl::GetFlag(FLAGS_precision));
  Model model;
  model.tokens = Input(graph, "tokens", kInt32, {batch, length});
  model.targets = Input(graph, "targets", kInt32, {batch, length});

  Tensor x = nn::Embedding(model.tokens, vocab, d_model, {.stddev = 0.05});
  x = nn::PositionEmbedding(x, length, d_model, {.stddev = 0.05});
  for (int i = 0; i < absl::GetFlag(FLAGS_layers); ++i) {
    Scope layer(graph, absl::StrCat("layer_", i));
    x = x +
        nn::SelfAttention(
            nn::LayerNorm(x, d_model),
            {.length = length, .heads = heads, .d_kv = d_kv, .causal = true});
    x = x + nn::FeedForward(nn::LayerNorm(x, d_model), d_ff, Gelu);
  }
  x = nn::LayerNorm(x, d_model);
  model.logits = nn::Dense(x, {d_model}, {vocab}, {.bias = false});
  model.loss = nn::SoftmaxCrossEntropy(model.logits, vocab, model.targets);

  // Linear warmup, then cosine decay.
  const int64_t warmup = absl::GetFlag(FLAGS_warmup_steps);
  const int64_t steps = std::max<int64_t>(absl::GetFlag(FLAGS_steps), warmup);
  const nn::Schedule learning_rate =
      nn::Schedule(absl::GetFlag(FLAGS_learning_rate)) *
      nn::LinearWarmup(warmup) * nn::CosineDecay(warmup, steps + 1, 0.05);
  model.step = nn::AdamW({.learning_rate = train::LoggedRate(learning_rate),
                          .weight_decay = absl::GetFlag(FLAGS_weight_decay)})
                   .Minimize(model.loss);
  return model;
}

absl::Status Main() {
  Graph graph;
  const Model model = BuildModel(graph);
  MTF_ASSIGN_OR_RETURN(
      const std::unique_ptr<train::Session> session,
      train::StartSession(
          graph, {{"train", {.fetches = {model.loss}, .updates = {model.step}}},
                  {"sample", {.fetches = {model.logits}}}}));

  MTF_ASSIGN_OR_RETURN(const train::TextDataset text,
                       train::TextDataset::Open(absl::GetFlag(FLAGS_text)));
  const uint32_t seed = absl::GetFlag(FLAGS_seed);
  const auto sample = [&] {
    return train::SampleText(*session, model.tokens, model.logits,
                             {.prompt = absl::GetFlag(FLAGS_prompt),
                              .bytes = absl::GetFlag(FLAGS_sample_bytes),
                              .temperature = absl::GetFlag(FLAGS_temperature),
                              .seed = seed});
  };
  MTF_ASSIGN_OR_RETURN(
      const train::TrainingResult result,
      train::TrainWithFlags(
          *session,
          {.loss = model.loss,
           .update = model.step,
           .steps = absl::GetFlag(FLAGS_steps),
           .feeds = train::TextFeeds(text, model.tokens, model.targets, seed),
           .tokens_per_step = model.tokens.shape().num_elements(),
           .log_json = absl::GetFlag(FLAGS_log_json),
           .sample = sample}));
  train::Say(absl::StrFormat(
      "loss %.4f nats per byte (mean of the last tenth of the steps: %.4f); "
      "bigram entropy of the text: %.4f",
      result.loss, result.smooth_loss, text.BigramEntropy()));

  MTF_ASSIGN_OR_RETURN(const std::string text_at_the_end, sample());
  train::Say(absl::StrCat("\n", text_at_the_end, "\n"));
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf

int main(int argc, char** argv) {
  return mtf::train::RunMain(
      argc, argv,
      "Trains a byte-level transformer on a text and prints a sample of it.",
      &mtf::Main);
}
