// SPDX-License-Identifier: Apache-2.0
#include "train/tokenizers/sentencepiece_library.h"

#include <sentencepiece_processor.h>

#include <exception>

namespace mtf::train {
namespace {

std::string MessageOf(const sentencepiece::util::Status& status) {
  if (status.ok()) return "";
  const std::string message = status.ToString();
  return message.empty() ? "unknown error" : message;
}

// The message of a call's status, or of its exception: Darts, which indexes the
// pieces of a model, throws for an empty one.
template <class Call>
std::string MessageOfCall(const Call& call) {
  try {
    return MessageOf(call());
  } catch (const std::exception& exception) {
    return exception.what();
  }
}

}  // namespace

struct SentencePieceModel::Processor {
  sentencepiece::SentencePieceProcessor processor;
};

SentencePieceModel::SentencePieceModel()
    : processor_(std::make_unique<Processor>()) {}
SentencePieceModel::~SentencePieceModel() = default;

std::string SentencePieceModel::Load(const std::string& serialized) {
  return MessageOfCall([&] {
    return processor_->processor.LoadFromSerializedProto(serialized);
  });
}

std::string SentencePieceModel::Encode(const char* text, std::size_t bytes,
                                       std::vector<int>& ids) const {
  return MessageOfCall([&] {
    return processor_->processor.Encode(std::string_view(text, bytes), &ids);
  });
}

std::string SentencePieceModel::Decode(const std::vector<int>& ids,
                                       std::string& text) const {
  return MessageOfCall(
      [&] { return processor_->processor.Decode(ids, &text); });
}

int SentencePieceModel::size() const {
  return processor_->processor.GetPieceSize();
}
int SentencePieceModel::bos() const { return processor_->processor.bos_id(); }
int SentencePieceModel::eos() const { return processor_->processor.eos_id(); }
int SentencePieceModel::pad() const { return processor_->processor.pad_id(); }
int SentencePieceModel::unk() const { return processor_->processor.unk_id(); }

int SentencePieceModel::Find(const std::string& piece) const {
  const int id = processor_->processor.PieceToId(piece);
  return processor_->processor.IsUnknown(id) ? -1 : id;
}

bool SentencePieceModel::IsControl(int id) const {
  return processor_->processor.IsControl(id);
}

}  // namespace mtf::train
