// SPDX-License-Identifier: Apache-2.0
#include "train/tokenizers/word_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace mtf::train {
namespace {

constexpr int kSlotBits = 15;

// Scratch memory of a very long word is not kept.
constexpr size_t kMostSymbolsKept = 1 << 16;

}  // namespace

WordCache::WordCache()
    : slots_(std::make_unique<Slot[]>(size_t{1} << kSlotBits)) {}

WordCache::Key WordCache::KeyOf(absl::string_view text, TextRange word) {
  Key key = {{0, 0, 0}};
  const uint32_t bytes = word.size();
  if (word.begin + sizeof(key) <= text.size()) {
    // Reads what follows the word, too, and clears it.
    std::memcpy(&key, text.data() + word.begin, sizeof(key));
    const uint32_t part = bytes / 8;
    key.part[part] &= (uint64_t{1} << (bytes % 8 * 8)) - 1;
    for (uint32_t i = part + 1; i < 3; ++i) key.part[i] = 0;
  } else {
    std::memcpy(&key, text.data() + word.begin, bytes);
  }
  key.part[2] |= static_cast<uint64_t>(bytes + 1) << 56;
  return key;
}

size_t WordCache::SlotOf(const Key& key) {
  uint64_t hash = key.part[0] * 0x9E3779B97F4A7C15;
  hash = (hash ^ hash >> 32 ^ key.part[1]) * 0xD6E8FEB86659FD93;
  hash = (hash ^ hash >> 32 ^ key.part[2]) * 0xA0761D6478BD642F;
  return hash >> (64 - kSlotBits);
}

bool WordCache::Find(const Key& key, std::vector<int32_t>& ids) const {
  const Slot& slot = slots_[SlotOf(key)];
  if (slot.key.part[0] != key.part[0] || slot.key.part[1] != key.part[1] ||
      slot.key.part[2] != key.part[2]) {
    return false;
  }
  ids.insert(ids.end(), slot.ids, slot.ids + slot.count);
  return true;
}

void WordCache::Insert(const Key& key, absl::Span<const int32_t> ids) {
  if (ids.size() > kMostIds) return;
  Slot& slot = slots_[SlotOf(key)];
  slot.key = key;
  slot.count = static_cast<uint32_t>(ids.size());
  std::copy(ids.begin(), ids.end(), slot.ids);
}

std::unique_ptr<EncodeScratch> ScratchPool::Take() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!free_.empty()) {
      std::unique_ptr<EncodeScratch> scratch = std::move(free_.back());
      free_.pop_back();
      return scratch;
    }
  }
  return std::make_unique<EncodeScratch>();
}

void ScratchPool::GiveBack(std::unique_ptr<EncodeScratch> scratch) {
  if (scratch->word.symbols.capacity() > kMostSymbolsKept) {
    scratch->word = WordScratch();
  }
  std::lock_guard<std::mutex> lock(mutex_);
  free_.push_back(std::move(scratch));
}

}  // namespace mtf::train
