// SPDX-License-Identifier: Apache-2.0
#include "train/data/rows/picture_rows.h"

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"

namespace mtf::train {

absl::StatusOr<std::shared_ptr<const PictureRows>> PictureRows::Create(
    PictureOptions options) {
  const auto channels = static_cast<size_t>(options.channels.size);
  for (std::vector<float>* numbers : {&options.mean, &options.stddev}) {
    if (numbers->size() == 1) numbers->resize(channels, numbers->front());
    if (numbers->size() == channels) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "pictures of ", Plural(options.channels.size, "channel"), " have ",
        numbers->size(), numbers == &options.mean ? " means" : " deviations",
        DetailLine("help", "give one for each channel, or one for all")));
  }
  for (const float stddev : options.stddev) {
    if (stddev > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the standard deviation of pictures is ", stddev,
                     DetailLine("help", "give a positive number")));
  }
  return std::shared_ptr<const PictureRows>(
      new PictureRows(std::move(options)));
}

std::vector<RowInfo> PictureRows::rows() const {
  std::vector<RowInfo> rows = {
      {"pictures",
       {options_.height, options_.width, options_.channels},
       kFloat32},
      {"labels", {}}};
  if (options_.weights) rows.push_back({"weights", {}, kFloat32});
  return rows;
}

absl::Status PictureRows::Write(const Record& record, int64_t, int64_t row,
                                absl::Span<HostTensor> feeds) const {
  if (record.missing && options_.weights) return absl::OkStatus();
  const auto pixels = RowOf<float>(feeds[0], row);
  if (record.missing || record.pixels.size() != pixels.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        record.missing ? "a missing picture needs weights"
                       : absl::StrCat("a picture has ",
                                      Plural(record.pixels.size(), "value"),
                                      ", but a row has ", pixels.size()),
        DetailLine("help", record.missing ? "set .weights of PictureRows"
                                          : "give PictureRows the size of the "
                                            "data set")));
  }
  const size_t channels = options_.mean.size();
  for (size_t i = 0; i < pixels.size(); ++i) {
    const float value = static_cast<float>(record.pixels[i]) / 255.0f;
    pixels[i] =
        (value - options_.mean[i % channels]) / options_.stddev[i % channels];
  }
  RowOf<int32_t>(feeds[1], row)[0] = record.label;
  if (options_.weights) RowOf<float>(feeds[2], row)[0] = 1;
  return absl::OkStatus();
}

}  // namespace mtf::train
