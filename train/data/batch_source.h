// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_BATCH_SOURCE_H_
#define TRAIN_DATA_BATCH_SOURCE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mtf/dtype.h"
#include "mtf/host_tensor.h"
#include "mtf/shape.h"
#include "train/data/sources/bad_records.h"

namespace mtf::train {

// The name, global shape and dtype of a feed. The first dimension is the batch.
struct FeedInfo {
  std::string name;
  Shape shape;
  DType dtype = kInt32;
  friend bool operator==(const FeedInfo&, const FeedInfo&) = default;
};

// The batches that a model is trained or evaluated on. A batch is a function of
// the step alone, so a run reads the same data under every layout, with any
// number of processes and reading threads, and after a restart. Thread-safe.
//
//   MTF_ASSIGN_OR_RETURN(request.feeds, batches->Batch(session->step()));
//
// One step per optimizer step: `step` is that of the session.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // What Batch returns, without reading anything.
  virtual std::vector<FeedInfo> feeds() const = 0;

  virtual int64_t batch_size() const = 0;

  // The number of steps that read every record once. Sources that draw at
  // random have no epochs and return 0.
  virtual int64_t batches_per_epoch() const = 0;

  // Rows [first, last) of the batch of `step` >= 0: tensors as in feeds(), with
  // last - first rows. Reads only the records of these rows, so that a process
  // need not prepare the rows of others. Errors are those of the records; for
  // data that is read once, kOutOfRange for a step after the last batch.
  virtual absl::StatusOr<std::map<std::string, HostTensor>> Rows(
      int64_t step, int64_t first, int64_t last) const = 0;

  // All rows of the batch of `step`: the feeds of a RunRequest.
  absl::StatusOr<std::map<std::string, HostTensor>> Batch(int64_t step) const {
    return Rows(step, 0, batch_size());
  }

  // The bad records that were read so far.
  virtual BadRecordReport bad_records() const { return {}; }

 protected:
  // kInvalidArgument unless 0 <= first <= last <= batch_size().
  absl::Status CheckRows(int64_t first, int64_t last) const;
};

}  // namespace mtf::train

#endif  // TRAIN_DATA_BATCH_SOURCE_H_
