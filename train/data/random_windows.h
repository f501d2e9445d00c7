// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_RANDOM_WINDOWS_H_
#define TRAIN_DATA_RANDOM_WINDOWS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "mtf/dimension.h"
#include "mtf/host_tensor.h"
#include "train/data/batch_source.h"
#include "train/data/sources/token_stream.h"

namespace mtf::train {

// Windows of a token stream at random offsets, which depend on seed, step and
// row: some tokens are read more often than others. TokenWindows
// (sources/token_windows.h) with an EpochOrder reads each token once in an
// epoch; this draw needs no epochs and suits short texts.
//
//   tokens   i32[batch, length]
//   targets  i32[batch, length]  the token after each
class RandomWindows final : public BatchSource {
 public:
  // kOutOfRange if the stream is shorter than a window.
  static absl::StatusOr<std::shared_ptr<const RandomWindows>> Create(
      std::shared_ptr<const TokenStream> stream, Dimension batch,
      Dimension length, uint32_t seed);

  // Rows [first, last) of `step` from any stream of more than length.size
  // tokens. A step wraps around at 2^32.
  static absl::StatusOr<std::pair<HostTensor, HostTensor>> Draw(
      const TokenStream& stream, uint32_t seed, int64_t step, int64_t first,
      int64_t last, const std::string& batch, const Dimension& length);

  std::vector<FeedInfo> feeds() const override;
  int64_t batch_size() const override { return batch_.size; }
  int64_t batches_per_epoch() const override { return 0; }
  absl::StatusOr<std::map<std::string, HostTensor>> Rows(
      int64_t step, int64_t first, int64_t last) const override;

 private:
  RandomWindows(std::shared_ptr<const TokenStream> stream, Dimension batch,
                Dimension length, uint32_t seed);

  const std::shared_ptr<const TokenStream> stream_;
  const Dimension batch_, length_;
  const uint32_t seed_;
};

}  // namespace mtf::train

#endif  // TRAIN_DATA_RANDOM_WINDOWS_H_
