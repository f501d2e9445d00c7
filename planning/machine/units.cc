// SPDX-License-Identifier: Apache-2.0
#include "planning/machine/units.h"

#include <cmath>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "layouts/text_items.h"
#include "mtf/status.h"

namespace mtf {
namespace {

struct Unit {
  absl::string_view name;
  double factor;
};

// In increasing order.
const std::vector<Unit>& UnitsOf(Quantity quantity) {
  static const auto* const bytes =
      new std::vector<Unit>{{"B", 1},        {"KB", 1e3},     {"KiB", 1024},
                            {"MB", 1e6},     {"MiB", 0x1p20}, {"GB", 1e9},
                            {"GiB", 0x1p30}, {"TB", 1e12},    {"TiB", 0x1p40}};
  static const auto* const rates = new std::vector<Unit>{
      {"B/s", 1},        {"KB/s", 1e3},     {"KiB/s", 1024},
      {"MB/s", 1e6},     {"MiB/s", 0x1p20}, {"GB/s", 1e9},
      {"GiB/s", 0x1p30}, {"TB/s", 1e12},    {"TiB/s", 0x1p40}};
  static const auto* const flops = new std::vector<Unit>{
      {"MFLOP/s", 1e6}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}};
  static const auto* const seconds =
      new std::vector<Unit>{{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
  switch (quantity) {
    case Quantity::kBytes:
      return *bytes;
    case Quantity::kBytesPerSecond:
      return *rates;
    case Quantity::kFlopsPerSecond:
      return *flops;
    case Quantity::kSeconds:
      return *seconds;
  }
  return *bytes;
}

absl::string_view QuantityName(Quantity quantity) {
  switch (quantity) {
    case Quantity::kBytes:
      return "size";
    case Quantity::kBytesPerSecond:
      return "bandwidth";
    case Quantity::kFlopsPerSecond:
      return "speed";
    case Quantity::kSeconds:
      return "time";
  }
  return "size";
}

bool IsBinary(const Unit& unit) {
  return absl::StrContains(unit.name, "i") && unit.name[0] != 'i';
}

}  // namespace

absl::StatusOr<double> ParseQuantity(absl::string_view text,
                                     Quantity quantity) {
  text = absl::StripAsciiWhitespace(text);
  size_t end = 0;
  while (end < text.size() &&
         (absl::ascii_isdigit(static_cast<unsigned char>(text[end])) ||
          text[end] == '.' || text[end] == '-' || text[end] == '+' ||
          // An exponent, not the first letter of a unit.
          ((text[end] == 'e' || text[end] == 'E') && end > 0 &&
           end + 1 < text.size() &&
           (absl::ascii_isdigit(static_cast<unsigned char>(text[end + 1])) ||
            text[end + 1] == '-' || text[end + 1] == '+')))) {
    ++end;
  }
  std::vector<std::string> names;
  for (const Unit& unit : UnitsOf(quantity)) names.emplace_back(unit.name);
  const std::string units = absl::StrJoin(names, ", ");
  const auto error = [&](absl::string_view what, absl::string_view help) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(text), " ", what, DetailLine("help", help)));
  };
  double number = 0;
  if (end == 0 || !absl::SimpleAtod(text.substr(0, end), &number)) {
    return error("does not begin with a number",
                 absl::StrCat("write a number and a unit: ", units));
  }
  const std::string name(absl::StripLeadingAsciiWhitespace(text.substr(end)));
  if (name.empty()) {
    return error("has no unit", absl::StrCat("the units are ", units));
  }
  for (const Unit& unit : UnitsOf(quantity)) {
    if (unit.name != name) continue;
    const double value = number * unit.factor;
    if (std::isfinite(value) && value > 0) return value;
    return error("is not a finite number above 0",
                 "sizes, times and rates are positive");
  }
  const std::string nearest = NearestName(name, names);
  return error(
      absl::StrCat("has the unit ", Quoted(name), ", which is not a unit of ",
                   QuantityName(quantity)),
      nearest.empty()
          ? absl::StrCat("the units are ", units)
          : absl::StrCat("did you mean ", nearest, "? The units are ", units));
}

bool ParseDecimal(absl::string_view text, double* number) {
  return text.find_first_not_of("0123456789.+-eE") == text.npos &&
         absl::SimpleAtod(text, number);
}

std::string FormatQuantity(double value, Quantity quantity) {
  const std::vector<Unit>& units = UnitsOf(quantity);
  const Unit* best = &units[0];
  for (const Unit& unit : units) {
    if (IsBinary(unit)) continue;
    if (value >= unit.factor) best = &unit;
  }
  if (quantity == Quantity::kBytes) {
    for (const Unit& unit : units) {
      if (IsBinary(unit) && value >= unit.factor &&
          std::fmod(value, unit.factor) == 0) {
        best = &unit;
      }
    }
  }
  return absl::StrFormat("%.9g %s", value / best->factor, best->name);
}

namespace internal {

std::string SecondsText(double seconds) {
  if (seconds == 0) return "0";
  const std::pair<double, absl::string_view> units[] = {
      {1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}};
  for (const auto& [unit, name] : units) {
    if (seconds >= 0.9995 * unit || name == "ns") {
      return absl::StrFormat("%.3g %s", seconds / unit, name);
    }
  }
  return "";
}

std::string FlopsText(double flops) {
  const std::pair<double, absl::string_view> units[] = {
      {1e15, "PFLOP"}, {1e12, "TFLOP"}, {1e9, "GFLOP"}, {1e6, "MFLOP"}};
  for (const auto& [unit, name] : units) {
    if (flops >= 0.9995 * unit) {
      return absl::StrFormat("%.3g %s", flops / unit, name);
    }
  }
  return absl::StrFormat("%.0f FLOP", flops);
}

std::string BytesText(double bytes) {
  const std::pair<double, absl::string_view> units[] = {
      {1099511627776.0, "TiB"},
      {1073741824.0, "GiB"},
      {1048576.0, "MiB"},
      {1024.0, "KiB"}};
  for (const auto& [unit, name] : units) {
    const double value = bytes / unit;
    if (std::abs(value) < 1) continue;
    return absl::StrFormat("%.*f %s",
                           std::abs(value) < 9.995   ? 2
                           : std::abs(value) < 99.95 ? 1
                                                     : 0,
                           value, name);
  }
  return absl::StrFormat("%.0f B", bytes);
}

}  // namespace internal

}  // namespace mtf
