// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_TOKENIZERS_WORD_CACHE_H_
#define TRAIN_TOKENIZERS_WORD_CACHE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "train/tokenizers/split_pattern.h"
#include "train/tokenizers/word_model.h"

namespace mtf::train {

// Remembers the ids of short words: a table in which each word has one slot of
// a cache line, and replaces the word that had it before. One thread at a time.
class WordCache {
 public:
  static constexpr size_t kMostBytes = 23;
  static constexpr size_t kMostIds = 9;

  // A word as three numbers: its bytes, zeros, and its length, so that a slot
  // of zeros is not a word.
  struct Key {
    uint64_t part[3];
  };

  WordCache();

  // The key of `word`, part of `text`, whose size is at most kMostBytes.
  static Key KeyOf(absl::string_view text, TextRange word);
  // Appends the ids of the word. Returns false if it is not cached.
  bool Find(const Key& key, std::vector<int32_t>& ids) const;
  // Remembers at most kMostIds ids.
  void Insert(const Key& key, absl::Span<const int32_t> ids);

 private:
  struct alignas(64) Slot {
    Key key;
    int32_t ids[kMostIds];
    uint32_t count;
  };

  static size_t SlotOf(const Key& key);

  std::unique_ptr<Slot[]> slots_;
};

// What one call of Encode works with.
struct EncodeScratch {
  WordScratch word;
  WordCache cache;
};

// Lends scratch memory to calls that run at once. Calls that follow one another
// get the same memory again, with the words that it remembers.
class ScratchPool {
 public:
  class Lease {
   public:
    explicit Lease(ScratchPool& pool) : pool_(pool), scratch_(pool.Take()) {}
    ~Lease() { pool_.GiveBack(std::move(scratch_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    EncodeScratch& operator*() const { return *scratch_; }

   private:
    ScratchPool& pool_;
    std::unique_ptr<EncodeScratch> scratch_;
  };

 private:
  std::unique_ptr<EncodeScratch> Take();
  void GiveBack(std::unique_ptr<EncodeScratch> scratch);

  std::mutex mutex_;  // guards free_
  std::vector<std::unique_ptr<EncodeScratch>> free_;
};

}  // namespace mtf::train

#endif  // TRAIN_TOKENIZERS_WORD_CACHE_H_
