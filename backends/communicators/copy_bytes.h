// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_COMMUNICATORS_COPY_BYTES_H_
#define BACKENDS_COMMUNICATORS_COPY_BYTES_H_

#include <cstdint>

namespace mtf {

// memcpy for messages. From a few KiB on, the C library copies with the
// processor's string instruction, which drops to 4 GB/s on some processors for
// unfavourable relative alignments; plain vector moves reach 20 GB/s and more.
void CopyBytes(void* to, const void* from, int64_t bytes);

// The same for a destination that another core has read before and reads next.
// Ordinary stores first fetch each cache line from the reader (2 GB/s between
// cores that share no cache); streaming stores invalidate it without a fetch
// (30 GB/s). The copy is visible to other cores on return.
void StreamBytes(void* to, const void* from, int64_t bytes);

}  // namespace mtf

#endif  // BACKENDS_COMMUNICATORS_COPY_BYTES_H_
