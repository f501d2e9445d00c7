// SPDX-License-Identifier: Apache-2.0
//
// Lesson 12: data of one's own.
//
// Reads lines of JSON, tokenizes them, packs several texts into each row, and
// reads ahead while a step runs. Each process reads the rows of its own ranks,
// and the losses do not depend on the layout. docs/data.md explains this
// program and lists the other formats.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "mtf/mtf.h"

namespace mtf {
namespace {

const Dimension kBatch{"batch", 8}, kLength{"length", 64},
    kModel{"d_model", 64}, kHeads{"heads", 4}, kKeys{"d_kv", 16},
    kHidden{"d_ff", 128}, kVocabulary{"vocab", 257}, kPositions{"position", 64};

// 200 texts of different lengths, and one damaged line.
void WriteTexts(const std::string& path) {
  std::ofstream file(path);
  for (int i = 0; i < 200; ++i) {
    if (i == 100) file << "{\"text\": \"this line has no end\n";
    file << "{\"id\": " << i << ", \"text\": \"";
    for (int j = 0; j < 2 + i % 5; ++j) file << i + j << ' ';
    file << "\"}\n";
  }
}

absl::StatusOr<std::shared_ptr<const train::BatchSource>> OpenTexts(
    const std::string& path) {
  const auto tokenizer = std::make_shared<const train::ByteTokenizer>();
  MTF_ASSIGN_OR_RETURN(const auto files, train::DataFiles(path));
  MTF_ASSIGN_OR_RETURN(
      const auto texts,
      train::OpenTextRecords(
          files, tokenizer,
          {.format = train::TextFormat::kJsonLines, .eos = true}));
  MTF_ASSIGN_OR_RETURN(
      const auto packed,
      train::PackedRecords::Create(
          texts, {.length = kLength.size, .skip_bad_records = true}));
  std::cout << absl::StrFormat("%d texts in %d rows; %s\n", texts->size(),
                               packed->size(),
                               packed->bad_records().ToString());
  MTF_ASSIGN_OR_RETURN(const auto order,
                       train::EpochOrder(packed, {.seed = 1}));
  const auto format = std::make_shared<const train::LanguageModelRows>(
      train::LanguageModelOptions{
          .length = kLength, .weights = true, .segments = true});
  return train::RecordBatches::Create(order, format, {.batch = kBatch});
}

struct Model {
  Tensor loss, step;
};

// A transformer whose texts do not see one another.
Model BuildModel(Graph& graph) {
  const Shape rows = {kBatch, kLength};
  const Tensor tokens = Input(graph, "tokens", kInt32, rows),
               targets = Input(graph, "targets", kInt32, rows),
               weights = Input(graph, "weights", kFloat32, rows),
               segments = Input(graph, "segments", kInt32, rows),
               positions = Input(graph, "positions", kInt32, rows);
  Tensor x = nn::Embedding(tokens, kVocabulary, kModel) +
             nn::Embedding(positions, kPositions, kModel);
  const Tensor mask =
      nn::SegmentMask(segments, Rename(segments, "length", "memory_length"));
  x = x + nn::SelfAttention(nn::LayerNorm(x, kModel), {.length = kLength,
                                                       .heads = kHeads,
                                                       .d_kv = kKeys,
                                                       .causal = true,
                                                       .mask = mask});
  x = x + nn::FeedForward(nn::LayerNorm(x, kModel), kHidden, Gelu);
  const Tensor loss = nn::CrossEntropy(nn::LayerNorm(x, kModel), kVocabulary,
                                       targets, {.weights = weights});
  return {loss, nn::AdamW({.learning_rate = 3e-3}).Minimize(loss)};
}

// Trains on a mesh; the threads of the prefetcher read two steps ahead.
absl::StatusOr<double> TrainOn(const std::string& mesh,
                               const std::string& layout,
                               const train::BatchSource& batches) {
  Graph graph;
  const Model model = BuildModel(graph);
  MTF_ASSIGN_OR_RETURN(const auto session,
                       train::Session::Create(graph, mesh, layout));
  MTF_RETURN_IF_ERROR(session->Initialize());
  train::RunRequest request = {.fetches = {model.loss},
                               .updates = {model.step}};
  // What the ranks of this process hold of each feed.
  MTF_ASSIGN_OR_RETURN(const train::FeedShards empty,
                       train::EmptyFeedShards(*session, request, batches));
  train::Prefetcher prefetcher(
      [&](int64_t step) -> absl::StatusOr<train::StepFeeds> {
        train::StepFeeds feeds;
        MTF_ASSIGN_OR_RETURN(feeds.feed_shards,
                             train::ReadFeedShards(batches, step, empty));
        return feeds;
      },
      {.first_step = session->step(), .workers = 2});
  double loss = 0;
  for (int step = 0; step < 100; ++step) {
    MTF_ASSIGN_OR_RETURN(train::StepFeeds feeds, prefetcher.Next());
    request.feed_shards = std::move(feeds.feed_shards);
    MTF_ASSIGN_OR_RETURN(const auto values, session->Run(request));
    MTF_ASSIGN_OR_RETURN(loss, values[0].At(0));
  }
  return loss;
}

absl::Status Main() {
  const std::string path = (std::filesystem::temp_directory_path() /
                            absl::StrCat("lesson_10_", getpid(), ".jsonl"))
                               .string();
  WriteTexts(path);
  const auto batches = OpenTexts(path);
  std::filesystem::remove(path);  // it is mapped, so it can still be read
  MTF_RETURN_IF_ERROR(batches.status());
  std::cout << "an epoch is " << (*batches)->batches_per_epoch() << " steps\n";
  for (const auto& [mesh, layout] :
       {std::pair("", ""), std::pair("data:2", "batch:data"),
        std::pair("data:2,model:2", "batch:data, heads:model, d_ff:model")}) {
    MTF_ASSIGN_OR_RETURN(const double loss, TrainOn(mesh, layout, **batches));
    std::cout << absl::StrFormat("loss %.3f  %s\n", loss,
                                 *layout ? layout : "one device");
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtf

int main() {
  const absl::Status status = mtf::Main();
  if (!status.ok()) std::cerr << mtf::ErrorText(status) << "\n";
  return status.ok() ? 0 : 1;
}
