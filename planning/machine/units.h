// SPDX-License-Identifier: Apache-2.0
//
// Numbers with units as machine files and flags write them: "141 GB",
// "4.3 TB/s", "39 us".
#ifndef PLANNING_MACHINE_UNITS_H_
#define PLANNING_MACHINE_UNITS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mtf {

enum class Quantity {
  kBytes,           // B, KB, MB, GB, TB of 1000; KiB, MiB, GiB, TiB of 1024
  kBytesPerSecond,  // those with "/s"
  kFlopsPerSecond,  // MFLOP/s, GFLOP/s, TFLOP/s, PFLOP/s
  kSeconds,         // ns, us, ms, s
};

// The number that `text` writes, in bytes, seconds or one of them per second.
// Blanks between number and unit are free.
//
//   ParseQuantity("80GiB", Quantity::kBytes)  // 85899345920
//
// kInvalidArgument, without a place, for text that is no finite number above 0
// with a unit of that quantity; a misspelt unit is told the nearest one.
absl::StatusOr<double> ParseQuantity(absl::string_view text, Quantity quantity);

// Reads all of `text` as a decimal number, "0.79" or "1e12": no hexadecimal, no
// word for infinity. False where it is none.
bool ParseDecimal(absl::string_view text, double* number);

// The other way, in the largest unit that leaves a number of at least 1:
// "4.3 TB/s". Bytes use units of 1024 where that is a whole number.
std::string FormatQuantity(double value, Quantity quantity);

namespace internal {

// "1.23 ms", "45.6 us", "7.89 s"; "12.3 GFLOP"; "45.6 MiB".
std::string SecondsText(double seconds);
std::string FlopsText(double flops);
std::string BytesText(double bytes);

}  // namespace internal

}  // namespace mtf

#endif  // PLANNING_MACHINE_UNITS_H_
