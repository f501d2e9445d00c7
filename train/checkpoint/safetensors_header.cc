// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "train/checkpoint/strict_json.h"

namespace mtf::train {
namespace {

using Kind = JsonNode::Kind;

constexpr char kMetadata[] = "__metadata__";
// The elements begin at a multiple of this, so that mapped ones are aligned.
constexpr int64_t kDataAlignment = 64;
// mtf has no tensor of as many dimensions, and the header of a file must not
// make the reader allocate much more than the file has.
constexpr size_t kMostDimensions = 64;

struct SafetensorsDType {
  absl::string_view name;
  int bits;
  std::optional<DType> dtype = std::nullopt;
};
constexpr SafetensorsDType kSafetensorsDTypes[] = {{"F32", 32, kFloat32},
                                                   {"BF16", 16, kBFloat16},
                                                   {"F16", 16, kFloat16},
                                                   {"I32", 32, kInt32},
                                                   {"I64", 64, kInt64},
                                                   {"BOOL", 8, kBool},
                                                   {"F64", 64},
                                                   {"I16", 16},
                                                   {"I8", 8},
                                                   {"U64", 64},
                                                   {"U32", 32},
                                                   {"U16", 16},
                                                   {"U8", 8},
                                                   {"C64", 64},
                                                   {"F8_E4M3", 8},
                                                   {"F8_E5M2", 8},
                                                   {"F8_E8M0", 8},
                                                   {"F8_E4M3FNUZ", 8},
                                                   {"F8_E5M2FNUZ", 8},
                                                   {"F6_E2M3", 6},
                                                   {"F6_E3M2", 6},
                                                   {"F4", 4}};

const SafetensorsDType* FindSafetensorsDType(absl::string_view name) {
  for (const SafetensorsDType& dtype : kSafetensorsDTypes) {
    if (dtype.name == name) return &dtype;
  }
  return nullptr;
}

template <class... Parts>
absl::Status BrokenHeader(const Parts&... parts) {
  return absl::DataLossError(absl::StrCat(parts...));
}

// The bytes of a tensor; nullopt if they are more than an int64_t counts or no
// whole number.
std::optional<int64_t> BytesOf(const std::vector<int64_t>& sizes, int bits) {
  int64_t product = bits;
  // A size of 0 makes the others irrelevant, but they must not hide behind it.
  int64_t without_zeros = bits;
  for (int64_t size : sizes) {
    if (size < 0) return std::nullopt;
    if (__builtin_mul_overflow(without_zeros, std::max<int64_t>(size, 1),
                               &without_zeros)) {
      return std::nullopt;
    }
    product = size == 0 ? 0 : product;
  }
  if (product == 0) return 0;
  if (without_zeros % 8 != 0) return std::nullopt;
  return without_zeros / 8;
}

// Reads an array of integers that are not negative.
absl::Status ReadSizes(const JsonNode& array, absl::string_view tensor,
                       size_t most, std::vector<int64_t>* sizes) {
  if (!array.is(Kind::kArray)) {
    return BrokenHeader("\"", array.key(), "\" of tensor ", Quoted(tensor),
                        " is not an array");
  }
  const std::vector<JsonNode> children = array.children();
  if (children.size() > most) {
    return BrokenHeader("\"", array.key(), "\" of tensor ", Quoted(tensor),
                        " has ", children.size(), " numbers; the limit is ",
                        most);
  }
  for (const JsonNode& size : children) {
    if (!size.is(Kind::kInteger) || size.integer() < 0) {
      return BrokenHeader("\"", array.key(), "\" of tensor ", Quoted(tensor),
                          " has an element that is not an integer from 0 to ",
                          std::numeric_limits<int64_t>::max());
    }
    sizes->push_back(size.integer());
  }
  return absl::OkStatus();
}

absl::Status ReadMetadata(const JsonNode& object,
                          std::map<std::string, std::string>* metadata) {
  if (!object.is(Kind::kObject)) {
    return BrokenHeader("\"", kMetadata, "\" is not an object");
  }
  for (const JsonNode& member : object.children()) {
    if (!member.is(Kind::kText)) {
      return BrokenHeader("entry ", Quoted(member.key()), " of \"", kMetadata,
                          "\" is not a string");
    }
    metadata->emplace(member.key(), member.text());
  }
  return absl::OkStatus();
}

// Reads one member of the description of a tensor.
absl::Status ReadField(const JsonNode& field, SafetensorsEntry* entry,
                       std::vector<int64_t>* offsets) {
  if (field.key() == "shape") {
    return ReadSizes(field, entry->name, kMostDimensions, &entry->sizes);
  }
  if (field.key() == "data_offsets") {
    return ReadSizes(field, entry->name, 2, offsets);
  }
  if (field.key() != "dtype") {
    return BrokenHeader("tensor ", Quoted(entry->name),
                        " has the unknown field ", Quoted(field.key()));
  }
  if (FindSafetensorsDType(field.text()) == nullptr) {
    return BrokenHeader("tensor ", Quoted(entry->name), " has the unknown ",
                        "dtype ", Quoted(field.text()));
  }
  entry->dtype_name = std::string(field.text());
  return absl::OkStatus();
}

absl::StatusOr<SafetensorsEntry> ReadEntry(const JsonNode& object,
                                           int64_t data_begin) {
  SafetensorsEntry entry;
  entry.name = std::string(object.key());
  const std::vector<JsonNode> fields = object.children();
  std::vector<int64_t> offsets;
  if (object.is(Kind::kObject)) {
    for (const JsonNode& field : fields) {
      MTF_RETURN_IF_ERROR(ReadField(field, &entry, &offsets));
    }
  }
  // Names are unique and each is one of three.
  if (!object.is(Kind::kObject) || fields.size() != 3 || offsets.size() != 2) {
    return BrokenHeader("tensor ", Quoted(entry.name),
                        " lacks its \"dtype\", \"shape\" or two "
                        "\"data_offsets\"");
  }
  const SafetensorsDType& dtype = *FindSafetensorsDType(entry.dtype_name);
  entry.dtype = dtype.dtype;
  const std::optional<int64_t> bytes = BytesOf(entry.sizes, dtype.bits);
  if (!bytes.has_value()) {
    return BrokenHeader("tensor ", Quoted(entry.name), " ", entry.Describe(),
                        " has too many elements or no whole number of bytes");
  }
  if (offsets[1] < offsets[0] || offsets[1] - offsets[0] != *bytes) {
    return BrokenHeader("tensor ", Quoted(entry.name), " ", entry.Describe(),
                        " has ", *bytes, " bytes, but its offsets are [",
                        offsets[0], ", ", offsets[1], "]");
  }
  entry.bytes = *bytes;
  if (__builtin_add_overflow(offsets[0], data_begin, &entry.offset)) {
    return BrokenHeader("tensor ", Quoted(entry.name), " begins at offset ",
                        offsets[0]);
  }
  return entry;
}

// Checks that the entries fill the file after the header.
absl::Status CheckOffsets(const SafetensorsHeader& header) {
  int64_t end = header.data_begin;
  const SafetensorsEntry* last = nullptr;
  for (const SafetensorsEntry& entry : header.entries) {
    const std::string after = last == nullptr
                                  ? std::string("the header")
                                  : absl::StrCat("tensor ", Quoted(last->name));
    if (entry.offset != end) {
      return BrokenHeader(
          "tensor ", Quoted(entry.name), " begins at byte ", entry.offset,
          entry.offset < end ? ", inside " : ", but ", after,
          entry.offset < end ? " that ends" : " ends", " at byte ", end);
    }
    if (entry.bytes > header.file_bytes - end) {
      return BrokenHeader("tensor ", Quoted(entry.name), " ends at byte ",
                          absl::StrCat(static_cast<uint64_t>(end) +
                                       static_cast<uint64_t>(entry.bytes)),
                          ", but the file has ", header.file_bytes, " bytes");
    }
    end += entry.bytes;
    last = &entry;
  }
  if (end == header.file_bytes) return absl::OkStatus();
  return BrokenHeader("the last tensor ends at byte ", end,
                      ", but the file has ", header.file_bytes, " bytes");
}

std::string HeaderText(const std::vector<SafetensorsSpec>& specs,
                       const std::vector<int64_t>& bytes,
                       const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) {
    absl::StrAppend(&text, "\"", kMetadata, "\":", JsonObjectOfTexts(metadata));
  }
  int64_t offset = 0;
  for (size_t i = 0; i < specs.size(); ++i) {
    absl::StrAppend(&text, text.size() > 1 ? ",\n" : "",
                    JsonText(specs[i].name), ":{\"dtype\":\"",
                    SafetensorsDTypeName(specs[i].dtype), "\",\"shape\":[",
                    absl::StrJoin(specs[i].sizes, ","), "],\"data_offsets\":[",
                    offset, ",", offset + bytes[i], "]}");
    offset += bytes[i];
  }
  absl::StrAppend(&text, "}");
  text.append(
      (kDataAlignment - (8 + text.size()) % kDataAlignment) % kDataAlignment,
      ' ');
  return text;
}

}  // namespace

std::string SafetensorsEntry::Describe() const {
  return absl::StrCat(dtype_name, "[", absl::StrJoin(sizes, ", "), "]");
}

absl::string_view SafetensorsDTypeName(DType dtype) {
  for (const SafetensorsDType& known : kSafetensorsDTypes) {
    if (known.dtype == dtype) return known.name;
  }
  return "";
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text,
                                                         int64_t file_bytes) {
  if (text.empty() || text[0] != '{') {
    return BrokenHeader("the header does not begin with \"{\"");
  }
  const absl::StatusOr<JsonDocument> document = JsonDocument::Parse(
      text, {.most_depth = 3, .most_bytes = kMostSafetensorsHeaderBytes});
  if (!document.ok()) {
    return BrokenHeader("the header is not valid: ",
                        document.status().message());
  }
  SafetensorsHeader header;
  header.file_bytes = file_bytes;
  header.data_begin = 8 + static_cast<int64_t>(text.size());
  for (const JsonNode& member : document->root().children()) {
    if (member.key() == kMetadata) {
      MTF_RETURN_IF_ERROR(ReadMetadata(member, &header.metadata));
      continue;
    }
    MTF_ASSIGN_OR_RETURN(SafetensorsEntry entry,
                         ReadEntry(member, header.data_begin));
    header.entries.push_back(std::move(entry));
  }
  std::sort(header.entries.begin(), header.entries.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
              return std::pair(a.offset, a.bytes) <
                     std::pair(b.offset, b.bytes);
            });
  MTF_RETURN_IF_ERROR(CheckOffsets(header));
  return header;
}

absl::StatusOr<std::string> MakeSafetensorsHeader(
    const std::vector<SafetensorsSpec>& specs,
    const std::map<std::string, std::string>& metadata,
    SafetensorsHeader* header) {
  std::vector<int64_t> bytes;
  int64_t sum = 0;
  for (const SafetensorsSpec& spec : specs) {
    const std::optional<int64_t> size =
        BytesOf(spec.sizes, static_cast<int>(8 * DTypeSize(spec.dtype)));
    if (!size.has_value() || __builtin_add_overflow(sum, *size, &sum)) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", Quoted(spec.name),
                       " has too many elements or a negative "
                       "size: [",
                       absl::StrJoin(spec.sizes, ", "), "]"));
    }
    bytes.push_back(*size);
  }
  const std::string text = HeaderText(specs, bytes, metadata);
  const auto size = static_cast<int64_t>(text.size());
  if (__builtin_add_overflow(sum, 8 + size, &sum)) {
    return absl::InvalidArgumentError("the tensors have too many bytes");
  }
  // Reading it back finds repeated and impossible names, and the offsets.
  absl::StatusOr<SafetensorsHeader> parsed = ParseSafetensorsHeader(text, sum);
  if (parsed.ok() && parsed->entries.size() == specs.size() &&
      parsed->metadata == metadata) {
    std::set<std::string> names;
    for (const SafetensorsEntry& entry : parsed->entries) {
      names.insert(entry.name);
    }
    for (const SafetensorsSpec& spec : specs) {
      if (names.contains(spec.name)) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "the name of tensor ", Quoted(spec.name), " is not UTF-8"));
    }
    *header = *std::move(parsed);
    std::string beginning(8, '\0');
    for (int i = 0; i < 8; ++i) {
      beginning[i] = static_cast<char>(size >> (8 * i) & 0xff);
    }
    return beginning + text;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "these tensors or their metadata cannot be written",
      DetailLine("why", parsed.ok() ? "a name is not UTF-8 or is reserved"
                                    : parsed.status().message())));
}

}  // namespace mtf::train
