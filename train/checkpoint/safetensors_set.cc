// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/safetensors_set.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "train/checkpoint/strict_json.h"

namespace mtf::train {
namespace {

constexpr char kIndexName[] = "model.safetensors.index.json";
constexpr char kModelName[] = "model.safetensors";

template <class... Parts>
absl::Status BrokenIndex(const Parts&... parts) {
  return absl::DataLossError(absl::StrCat(parts...));
}

absl::Status ReadWeightMap(const JsonNode& object, SafetensorsIndex* index) {
  for (const JsonNode& member : object.children()) {
    if (!member.is(JsonNode::Kind::kText)) {
      return BrokenIndex("the file of tensor ", Quoted(member.key()),
                         " is not a string");
    }
    if (!IsPlainFileName(member.text())) {
      return BrokenIndex("the file of tensor ", Quoted(member.key()), " is ",
                         Quoted(member.text()),
                         ", which is not the name of a file in the folder of "
                         "the index");
    }
    index->weight_map.emplace(member.key(), member.text());
  }
  if (!index->weight_map.empty()) return absl::OkStatus();
  return BrokenIndex(
      "its \"weight_map\" is not an object with the files of "
      "tensors");
}

// The file or index that stands for a folder.
absl::StatusOr<std::string> ModelOfFolder(
    const std::string& folder, const std::vector<std::string>& names) {
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (name == kIndexName) return PathIn(folder, name);
    if (absl::EndsWith(name, ".safetensors")) found.push_back(name);
  }
  if (std::find(found.begin(), found.end(), kModelName) != found.end()) {
    return PathIn(folder, kModelName);
  }
  if (found.size() == 1) return PathIn(folder, found[0]);
  return absl::NotFoundError(absl::StrCat(
      "folder ", Quoted(folder), " has neither \"", kIndexName, "\" nor \"",
      kModelName, "\" nor one file *.safetensors",
      DetailLine("has", absl::StrCat(
                            Plural(static_cast<int64_t>(found.size()), "file"),
                            " named *.safetensors")),
      DetailLine("help", "name the file or its index")));
}

}  // namespace

absl::StatusOr<SafetensorsIndex> ParseSafetensorsIndex(absl::string_view text) {
  const absl::StatusOr<JsonDocument> document =
      JsonDocument::Parse(text, {.most_bytes = kMostSafetensorsHeaderBytes});
  if (!document.ok()) {
    return BrokenIndex("not an index: ", document.status().message());
  }
  SafetensorsIndex index;
  bool has_map = false;
  for (const JsonNode& member : document->root().children()) {
    if (member.key() == "weight_map") {
      MTF_RETURN_IF_ERROR(ReadWeightMap(member, &index));
      has_map = true;
    }
    if (member.key() != "metadata") continue;
    for (const JsonNode& field : member.children()) {
      // Some programs write a float.
      if (field.key() != "total_size") continue;
      const double bytes = field.number();
      if (bytes >= 0 && bytes < 9e18) {
        index.total_size = static_cast<int64_t>(bytes);
        if (field.is(JsonNode::Kind::kInteger)) {
          index.total_size = field.integer();
        }
      }
    }
  }
  if (!has_map) return BrokenIndex("not an index: it has no \"weight_map\"");
  return index;
}

absl::Status WriteSafetensorsIndex(const std::string& path,
                                   const SafetensorsIndex& index,
                                   FileSystem* files) {
  const std::string text = absl::StrCat(
      "{\"metadata\": {\"total_size\": ", index.total_size,
      "},\n \"weight_map\": ", JsonObjectOfTexts(index.weight_map), "}\n");
  MTF_RETURN_IF_ERROR(ParseSafetensorsIndex(text).status());
  return WriteDurably(files == nullptr ? FileSystem::Real() : *files, path,
                      text);
}

absl::StatusOr<std::unique_ptr<SafetensorsSet>> SafetensorsSet::Open(
    const std::string& path, FileSystem* files) {
  FileSystem& system = files == nullptr ? FileSystem::Real() : *files;
  std::unique_ptr<SafetensorsSet> set(new SafetensorsSet);
  set->path_ = path;
  std::string model = path;
  if (const auto names = system.List(path); names.ok()) {
    MTF_ASSIGN_OR_RETURN(model, ModelOfFolder(path, *names));
  }
  if (absl::EndsWith(model, ".json")) {
    MTF_RETURN_IF_ERROR(set->OpenIndex(model, system));
  } else {
    MTF_RETURN_IF_ERROR(set->AddFile(model, system));
  }
  for (const auto& [name, file] : set->file_of_) set->names_.push_back(name);
  return set;
}

absl::Status SafetensorsSet::AddFile(const std::string& path,
                                     FileSystem& files) {
  MTF_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsFile> file,
                       SafetensorsFile::Open(path, {.files = &files}));
  for (const SafetensorsEntry& entry : file->entries()) {
    const auto [other, is_new] = file_of_.emplace(entry.name, file.get());
    if (is_new) continue;
    return absl::DataLossError(
        absl::StrCat("tensor ", Quoted(entry.name), " is in two files, ",
                     Quoted(other->second->path()), " and ", Quoted(path)));
  }
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

absl::Status SafetensorsSet::OpenIndex(const std::string& path,
                                       FileSystem& files) {
  MTF_ASSIGN_OR_RETURN(
      const std::string text,
      ReadWhole(files, path, Links::kFollow, kMostSafetensorsHeaderBytes));
  absl::StatusOr<SafetensorsIndex> index = ParseSafetensorsIndex(text);
  if (!index.ok()) {
    return absl::Status(
        index.status().code(),
        absl::StrCat("file ", Quoted(path), ": ", index.status().message()));
  }
  const size_t slash = path.rfind('/');
  const std::string folder =
      slash == path.npos ? "" : path.substr(0, slash + 1);
  std::set<std::string> parts;
  for (const auto& [tensor, part] : index->weight_map) parts.insert(part);
  for (const std::string& part : parts) {
    MTF_RETURN_IF_ERROR(AddFile(PathIn(folder, part), files));
  }
  int64_t total = 0;
  for (const auto& [tensor, part] : index->weight_map) {
    const auto file = file_of_.find(tensor);
    if (file == file_of_.end() ||
        file->second->path() != PathIn(folder, part)) {
      return absl::DataLossError(
          absl::StrCat("file ", Quoted(PathIn(folder, part)), " has no tensor ",
                       Quoted(tensor), ", but ", Quoted(path), " says so"));
    }
  }
  for (const auto& [tensor, file] : file_of_) {
    if (index->weight_map.contains(tensor)) {
      total += (*file->Find(tensor))->bytes;
      continue;
    }
    return absl::DataLossError(absl::StrCat("tensor ", Quoted(tensor),
                                            " of file ", Quoted(file->path()),
                                            " is not in ", Quoted(path)));
  }
  if (index->total_size >= 0 && index->total_size != total) {
    notices_.push_back(
        absl::StrCat("file ", Quoted(path), " states ", index->total_size,
                     " bytes in all, but its tensors have ", total));
  }
  return absl::OkStatus();
}

absl::StatusOr<const SafetensorsFile*> SafetensorsSet::FileOf(
    absl::string_view name) const {
  const auto found = file_of_.find(name);
  if (found != file_of_.end()) return found->second;
  const std::string nearest = NearestName(name, names_);
  return absl::NotFoundError(absl::StrCat(
      Quoted(path_), " has no tensor ", Quoted(name),
      nearest.empty() ? ""
                      : absl::StrCat("; did you mean ", Quoted(nearest), "?")));
}

absl::StatusOr<const SafetensorsEntry*> SafetensorsSet::Find(
    absl::string_view name) const {
  MTF_ASSIGN_OR_RETURN(const SafetensorsFile* file, FileOf(name));
  return file->Find(name);
}

absl::StatusOr<HostTensor> SafetensorsSet::Read(
    absl::string_view name, const ElementRanges& ranges) const {
  MTF_ASSIGN_OR_RETURN(const SafetensorsFile* file, FileOf(name));
  return file->Read(name, ranges);
}

absl::StatusOr<HostTensor> SafetensorsSet::Read(absl::string_view name) const {
  MTF_ASSIGN_OR_RETURN(const SafetensorsFile* file, FileOf(name));
  return file->Read(name);
}

}  // namespace mtf::train
