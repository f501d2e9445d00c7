// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PROGRAM_RING_ROWS_H_
#define LOWERING_PROGRAM_RING_ROWS_H_

#include <cstdint>
#include <string>

#include "lowering/program/program.h"

namespace mtf {

// The rows of a length that one rank holds for an attention: the first `valid`
// rows in memory, of which row i is row first + i * stride of all ranks.
struct RingRows {
  int64_t valid = 0, first = 0, stride = 1;
};

// The rows that `rank` holds of `dimension`, the length or the memory_length of
// an attention, of which `value` is an operand or a result. Unless the
// attention is a step of a ring, these are the rows of the shard.
RingRows FindRingRows(const Program& program, const ProgramValue& value,
                      const std::string& dimension,
                      const AttentionAttributes& attention, int64_t rank);

// The rows [begin, end) of `keys`, by their offset in memory, that a query at
// `position` sees. Empty if begin >= end.
struct VisibleKeys {
  int64_t begin = 0, end = 0;
};
VisibleKeys FindVisibleKeys(const AttentionSpec& spec, int64_t position,
                            const RingRows& keys);

}  // namespace mtf

#endif  // LOWERING_PROGRAM_RING_ROWS_H_
