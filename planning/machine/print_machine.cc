// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "planning/machine/machine.h"
#include "planning/machine/units.h"

namespace mtf {

std::string Machine::ToString() const {
  const auto entry = [](absl::string_view key, double value,
                        Quantity quantity) {
    return absl::StrCat(key, " ", FormatQuantity(value, quantity), "\n");
  };
  const auto table = [](const TimeCurve& curve) {
    std::string rows;
    for (const TimeCurve::Point& point : curve.points()) {
      absl::StrAppend(&rows, "  ", FormatQuantity(point.size, Quantity::kBytes),
                      " ", FormatQuantity(point.seconds, Quantity::kSeconds),
                      "\n");
    }
    return rows;
  };
  const auto curve = [](absl::string_view key, const ShareCurve& shares) {
    std::string line;
    for (const ShareCurve::Point& point : shares.points) {
      absl::StrAppendFormat(&line, " %.9g:%.9g", point.size, point.share);
    }
    return line.empty() ? line : absl::StrCat(key, line, "\n");
  };
  std::string text = absl::StrCat(
      "machine ", name_, "\n",
      checked_.empty() ? "" : absl::StrCat("checked ", checked_, "\n"),
      "\n[device]\n");
  text += entry("memory", static_cast<double>(memory_bytes_), Quantity::kBytes);
  text += entry("bandwidth", bandwidth_, Quantity::kBytesPerSecond);
  text += entry("latency", latency_, Quantity::kSeconds);
  if (host_link_ > 0) {
    text += entry("host_link", host_link_, Quantity::kBytesPerSecond);
  }
  if (functions_ > 0) {
    text += entry("functions", functions_, Quantity::kFlopsPerSecond);
  }
  absl::StrAppend(&text, "overlap ", overlaps_ ? "yes" : "no", "\nfusion ",
                  fuses_ ? "yes" : "no", "\nattention ",
                  has_all_attention_ ? "yes" : "no", "\n");
  if (!copy_.empty()) absl::StrAppend(&text, "copy\n", table(copy_));
  for (const MatmulRate& rate : rates_) {
    absl::StrAppend(&text, "\n[matmul ", DTypeName(rate.dtype), "]\n",
                    entry("peak", rate.peak, Quantity::kFlopsPerSecond),
                    curve("flops", rate.flops), curve("side", rate.side),
                    curve("k", rate.k));
  }
  if (has_attention_rate()) {
    absl::StrAppend(&text, "\n[attention]\n",
                    curve("forward", attention_.forward),
                    curve("backward", attention_.backward));
  }
  for (const MachineLink& link : links_) {
    absl::StrAppend(&text, "\n[link ", link.name, "]\n");
    if (link.ranks != 0) absl::StrAppend(&text, "ranks ", link.ranks, "\n");
    text += entry("bandwidth", link.bandwidth, Quantity::kBytesPerSecond);
    text += entry("latency", link.latency, Quantity::kSeconds);
    for (const CollectiveTable& measured : link.tables) {
      absl::StrAppend(&text, CollectiveName(measured.kind), " over ",
                      measured.ranks, "\n", table(measured.seconds));
    }
  }
  return text;
}

}  // namespace mtf
