// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_ROWS_ROW_FORMAT_H_
#define TRAIN_DATA_ROWS_ROW_FORMAT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "mtf/dtype.h"
#include "mtf/host_tensor.h"
#include "mtf/shape.h"
#include "train/data/sources/record.h"

namespace mtf::train {

// The name, shape and dtype of a feed without its first dimension, the batch.
struct RowInfo {
  std::string name;
  Shape shape;
  DType dtype = kInt32;
};

// How records become rows of the feeds of a model. Thread-safe.
class RowFormat {
 public:
  virtual ~RowFormat() = default;

  virtual std::vector<RowInfo> rows() const = 0;

  // Whether a feed holds weights, so that a missing record has no effect on
  // losses.
  virtual bool has_weights() const = 0;

  // Writes `record` as row `row` of `feeds`, tensors [batch, ...] of zeros in
  // the order of rows(). `position` of the order of records is the counter of
  // random numbers. A missing record, and one that has nothing to learn, has
  // weights of 0. kInvalidArgument if a record is not of the kind that the
  // format expects, or needs weights that the format has not.
  virtual absl::Status Write(const Record& record, int64_t position,
                             int64_t row,
                             absl::Span<HostTensor> feeds) const = 0;
};

// Row `row` of a tensor [batch, ...] whose dtype is that of T.
template <class T>
absl::Span<T> RowOf(HostTensor& tensor, int64_t row) {
  const int64_t elements = tensor.num_elements() / tensor.shape()[0].size;
  return absl::Span<T>(static_cast<T*>(tensor.data()) + row * elements,
                       elements);
}

}  // namespace mtf::train

#endif  // TRAIN_DATA_ROWS_ROW_FORMAT_H_
