// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_COMMUNICATORS_COPY_BYTES_H_
#define BACKENDS_COMMUNICATORS_COPY_BYTES_H_

#include <cstdint>

namespace mtf {

// memcpy for messages. The C library copies a few KiB and more with the string
// instruction of the processor, which some processors run at 4 GB/s when the
// two addresses lie badly to each other; plain vector moves do 20 and more.
void CopyBytes(void* to, const void* from, int64_t bytes);

// The same, for a destination that another core has read and will read next.
// Ordinary stores first fetch every line that the reader still caches: 2 GB/s
// between cores that share no cache. Streaming stores take it away unread, 30
// GB/s, and cost the reader nothing. Complete on return.
void StreamBytes(void* to, const void* from, int64_t bytes);

}  // namespace mtf

#endif  // BACKENDS_COMMUNICATORS_COPY_BYTES_H_
