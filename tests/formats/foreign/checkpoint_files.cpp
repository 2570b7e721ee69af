// SPDX-License-Identifier: Apache-2.0
#include "formats/foreign/checkpoint_files.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "cairn/array/format.hpp"
#include "cairn/base/error.hpp"

#include "formats/fixtures.hpp"
#include "formats/internal/dcp_metadata.hpp"
#include "formats/internal/torch_archive.hpp"
#include "support/temp_dir.hpp"

namespace cairn::formats {
namespace {

constexpr std::uint64_t kMostElements = std::uint64_t{1} << 22;

/// Undoes the form of numbers of `swapped` bytes, of which a complex element has two.
std::string decoded(std::string bytes, const SliceForm& form, std::size_t swapped) {
  const auto has = [&](std::string_view codec) {
    return std::find(form.codecs.begin(), form.codecs.end(), codec) != form.codecs.end();
  };
  if (has(kLatin1Codec)) {
    std::string plain;
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      const auto lead = static_cast<unsigned char>(bytes[at]);
      plain.push_back(lead < 0x80 ? bytes[at] : static_cast<char>((lead & 3u) << 6 | (bytes[++at] & 0x3f)));
    }
    bytes = plain;
  }
  if (form.is_big_endian) {
    for (std::size_t at = 0; at < bytes.size(); at += swapped) {
      std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                   bytes.begin() + static_cast<std::ptrdiff_t>(at + swapped));
    }
  }
  for (std::size_t at = 0; at + swapped <= bytes.size(); at += swapped) {
    char& highest = bytes[at + swapped - 1];
    const bool is_imaginary = at / swapped % 2 == 1;
    highest = static_cast<char>(highest ^ (has(kNegateCodec) ? 0x80 : 0) ^
                                (has(kConjugateCodec) && is_imaginary ? 0x80 : 0));
  }
  return bytes;
}

void put16(std::string& out, std::uint64_t number) {
  out.append(reinterpret_cast<const char*>(&number), 2);
}
void put32(std::string& out, std::uint64_t number) {
  out.append(reinterpret_cast<const char*>(&number), 4);
}
void put64(std::string& out, std::uint64_t number) {
  out.append(reinterpret_cast<const char*>(&number), 8);
}

}  // namespace

Files read_files(const std::filesystem::path& folder) {
  Files files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      files[entry.path().filename().string()] = testing::read_text(entry.path());
    }
  }
  return files;
}

ReadAt reader_of(std::string_view bytes) {
  return [bytes](std::uint64_t begin, std::uint64_t size) {
    if (begin > bytes.size() || size > bytes.size() - begin) {
      throw std::logic_error("bytes beyond the file were asked for");
    }
    const auto part = std::as_bytes(
        std::span(bytes.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(size))));
    return std::vector<std::byte>(part.begin(), part.end());
  };
}

ForeignCatalogue read_archive(std::string_view bytes, std::string_view path) {
  return describe_torch_archive(open_torch_archive(reader_of(bytes), bytes.size(), path), path);
}

ForeignCatalogue describe_dcp(const Files& files) {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : files) {
    names.push_back(name);
  }
  std::vector<ForeignCatalogue> ranks;
  for (const std::string& name : dcp_metadata_files(names)) {
    ranks.push_back(describe_dcp_metadata(as_bytes(files.at(name)), name));
  }
  return ranks.size() == 1 ? std::move(ranks[0]) : join_dcp_metadata(ranks);
}

ForeignCatalogue read_dcp(const Files& files) {
  ForeignCatalogue catalogue = describe_dcp(files);
  for (ForeignArray& array : catalogue.arrays) {
    for (ForeignSlice& slice : array.slices) {
      const std::string& name = catalogue.files[slice.range.file];
      const auto file = files.find(name);
      if (file == files.end() || slice.range.end > file->second.size()) {
        throw Error(Errc::malformed_metadata, name + " is missing or short");
      }
      const std::string_view bytes =
          std::string_view(file->second).substr(slice.range.begin, slice.range.end - slice.range.begin);
      ForeignCatalogue chunk;
      if (catalogue.forms[slice.form].codecs.empty()) {
        chunk = read_archive(bytes, name);
      }
      slice = locate_dcp_slice(array, slice, chunk, catalogue, name);
    }
  }
  return catalogue;
}

std::string elements_of(const ForeignArray& array, const ForeignCatalogue& catalogue, const Files& files) {
  // Two elements of float4 count as one.
  const bool is_packed_pair = array.dtype == DType::float4;
  const std::size_t item = std::max<std::size_t>(bits(array.dtype) / 8, 1);
  Shape shape = array.shape;
  if (is_packed_pair) {
    shape[shape.size() - 1] /= 2;
  }
  const std::uint64_t elements = element_count(shape).value();
  if (elements > kMostElements) {
    throw Error(Errc::malformed_metadata, array.path + " is larger than those of tests are");
  }
  std::string out(static_cast<std::size_t>(elements) * item, '?');
  for (const ForeignSlice& slice : array.slices) {
    const SliceForm& form = catalogue.forms[slice.form];
    const std::string bytes = decoded(files.at(catalogue.files[slice.range.file])
                                          .substr(slice.range.begin, slice.range.end - slice.range.begin),
                                      form, is_complex(array.dtype) ? item / 2 : item);
    Shape extents = slice.box.extents();
    if (is_packed_pair) {
      extents[extents.size() - 1] /= 2;
    }
    const std::uint64_t count = element_count(extents).value();
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint64_t rest = i;
      std::uint64_t from = form.strides ? 0 : i * item;
      std::uint64_t to = 0;
      std::uint64_t pitch = item;
      for (std::size_t axis = extents.size(); axis-- > 0;) {
        const std::uint64_t index = rest % extents[axis];
        rest /= extents[axis];
        from += form.strides ? index * static_cast<std::uint64_t>((*form.strides)[axis]) : 0;
        to += (slice.box.begin(axis) + index) * pitch;
        pitch *= shape[axis];
      }
      if (from + item > bytes.size() || to + item > out.size()) {
        throw std::logic_error("an element lies outside its slice or array: " + array.path);
      }
      std::memcpy(out.data() + to, bytes.data() + from, item);
    }
  }
  return out;
}

template <class T>
void show_value(std::map<std::string, std::string>& lines, const std::string& path, const T& is) {
  std::string& line = lines[path];
  if constexpr (std::is_same_v<T, std::monostate>) {
    line = "null";
  } else if constexpr (std::is_same_v<T, bool>) {
    line = is ? "true" : "false";
  } else if constexpr (std::is_same_v<T, std::string>) {
    line = "text " + is;
  } else if constexpr (std::is_same_v<T, std::vector<std::byte>>) {
    line = fmt::format("bytes {}", std::string_view(reinterpret_cast<const char*>(is.data()), is.size()));
  } else if constexpr (std::is_same_v<T, EmptyMap>) {
    line = "map";
  } else if constexpr (std::is_same_v<T, ListSize>) {
    line = fmt::format("list {}", is.size);
  } else if constexpr (std::is_same_v<T, ScalarList>) {
    line = fmt::format("list {}", is.elements.size());
    for (std::size_t i = 0; i < is.elements.size(); ++i) {
      std::string element = path;
      append_key(element, fmt::to_string(i));
      std::visit([&](const auto& scalar) { show_value(lines, element, scalar); }, is.elements[i]);
    }
  } else {
    line = fmt::format("{} {}", std::is_same_v<T, double> ? "real" : "int", is);
  }
}

std::map<std::string, std::string> shown(const ForeignCatalogue& catalogue, const Files& files) {
  std::map<std::string, std::string> lines;
  for (const ForeignValue& value : catalogue.values) {
    std::visit([&](const auto& is) { show_value(lines, value.path, is); }, value.value);
  }
  for (const ForeignObject& object : catalogue.objects) {
    lines[object.path] = "object";
  }
  for (const LeftOut& left_out : catalogue.left_out) {
    lines[left_out.path] = "left out: " + left_out.why;
  }
  for (const ForeignArray& array : catalogue.arrays) {
    lines[array.path] =
        fmt::format("{} {} {}", name(array.dtype), array.shape, sha256(elements_of(array, catalogue, files)));
  }
  return lines;
}

std::string pickled(std::uint64_t number) {
  std::string out("\x8a\x09", 2);  // LONG1 of nine bytes: none is negative.
  put64(out, number);
  out.push_back('\0');
  return out;
}

std::string pickled(std::string_view text) {
  std::string out = "X";
  put32(out, text.size());
  return out.append(text);
}

std::string pickled_tuple(const std::string& items) {
  return "(" + items + "t";
}

std::string TensorPickle::text() const {
  const std::string storage =
      pickled_tuple(pickled(std::string_view("storage")) + "ctorch\nFloatStorage\n" +
                    pickled(std::string_view(key)) + pickled(std::string_view("cpu")) + count);
  return "ctorch._utils\n_rebuild_tensor_v2\n" +
         pickled_tuple(storage + "Q" + offset + shape + strides + "\x89" + "ccollections\nOrderedDict\n)R") +
         "R";
}

std::string make_archive(const std::vector<ArchiveMember>& members, std::string_view comment) {
  std::string out;
  std::string directory;
  for (const ArchiveMember& member : members) {
    const std::uint32_t sum =
        can_compute_crc32() && member.has_sum ? update_crc32(0, as_bytes(member.data)) : 0;
    const std::uint64_t header = out.size() + static_cast<std::uint64_t>(member.header_shift);
    const std::string& local = member.local_name.empty() ? member.name : member.local_name;
    out += "PK\x03\x04";
    put16(out, 45);
    put16(out, member.flags);
    put16(out, member.method);
    put32(out, 0);
    put32(out, sum);
    put32(out, member.data.size());
    put32(out, member.data.size());
    put16(out, local.size());
    put16(out, 0);
    out += local + member.data;
    directory += "PK\x01\x02";
    put16(directory, 45);
    put16(directory, 45);
    put16(directory, member.flags);
    put16(directory, member.method);
    put32(directory, 0);
    put32(directory, sum);
    put32(directory, member.is_wide ? 0xffffffffu : member.data.size());
    put32(directory, member.is_wide ? 0xffffffffu : member.data.size());
    put16(directory, member.name.size());
    put16(directory, member.is_wide ? 28 : 0);
    put16(directory, 0);
    put16(directory, 0);
    put16(directory, 0);
    put32(directory, 0);
    put32(directory, member.is_wide ? 0xffffffffu : header);
    directory += member.name;
    if (member.is_wide) {
      put16(directory, 1);
      put16(directory, 24);
      put64(directory, member.data.size());
      put64(directory, member.data.size());
      put64(directory, header);
    }
  }
  const std::uint64_t begin = out.size();
  out += directory;
  out += "PK\x05\x06";
  put32(out, 0);
  put16(out, members.size());
  put16(out, members.size());
  put32(out, directory.size());
  put32(out, begin);
  put16(out, comment.size());
  return out.append(comment);
}

std::string make_torch_archive(std::string_view pickle, const std::vector<std::string>& storages) {
  std::vector<ArchiveMember> members;
  members.push_back({"archive/data.pkl", std::string(pickle)});
  for (std::size_t i = 0; i < storages.size(); ++i) {
    members.push_back({fmt::format("archive/data/{}", i), storages[i]});
  }
  return make_archive(members);
}

}  // namespace cairn::formats
