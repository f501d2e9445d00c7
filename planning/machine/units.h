// SPDX-License-Identifier: Apache-2.0
//
// Quantities with units in machine files and flags: "141 GB", "4.3 TB/s",
// "39 us".
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

// Parses `text` as a quantity in bytes, seconds, or bytes or FLOP per second.
// Blanks between number and unit are optional.
//
//   ParseQuantity("80GiB", Quantity::kBytes)  // 85899345920
//
// kInvalidArgument, without file and line, if `text` is not a finite number
// above 0 with a unit of that quantity. For a misspelt unit the message
// suggests the nearest one.
absl::StatusOr<double> ParseQuantity(absl::string_view text, Quantity quantity);

// Parses all of `text` as a decimal number, "0.79" or "1e12"; neither
// hexadecimal nor infinity. Returns false if it is not one.
bool ParseDecimal(absl::string_view text, double* number);

// Formats a quantity in the largest unit in which it is at least 1: "4.3 TB/s".
// Bytes use units of 1024 if that gives a whole number.
std::string FormatQuantity(double value, Quantity quantity);

namespace internal {

// "1.23 ms", "45.6 us", "7.89 s"; "12.3 GFLOP"; "45.6 MiB".
std::string SecondsText(double seconds);
std::string FlopsText(double flops);
std::string BytesText(double bytes);

}  // namespace internal

}  // namespace mtf

#endif  // PLANNING_MACHINE_UNITS_H_
