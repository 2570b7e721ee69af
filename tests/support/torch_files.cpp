// SPDX-License-Identifier: Apache-2.0
#include "support/torch_files.hpp"

#include <cstddef>
#include <span>
#include <stdexcept>

#include "formats/internal/zip.hpp"

namespace cairn::testing {
namespace {

constexpr std::uint64_t kMemberAlignment = 64;
constexpr std::uint64_t kElsewhere = 0xffff'ffffu;

template <class Number>
void put(std::string& out, std::uint64_t number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof(Number));
}

void put16(std::string& out, std::uint64_t number) {
  put<std::uint16_t>(out, number);
}

void put32(std::string& out, std::uint64_t number) {
  put<std::uint32_t>(out, number);
}

void put64(std::string& out, std::uint64_t number) {
  put<std::uint64_t>(out, number);
}

/// The opcode of a number.
void put_number(std::string& out, std::uint64_t number) {
  if (number < 1u << 8) {
    out += 'K';
    put<std::uint8_t>(out, number);
  } else if (number < 1u << 16) {
    out += 'M';
    put16(out, number);
  } else if (number < 1u << 31) {
    out += 'J';
    put32(out, number);
  } else {
    out.append("\x8a\x09", 2);  // Nine bytes: none is negative.
    put64(out, number);
    out += '\0';
  }
}

void put_tuple(std::string& out, const Shape& numbers) {
  out += numbers.size() > 3 ? "(" : "";
  for (const std::uint64_t number : numbers) {
    put_number(out, number);
  }
  constexpr char kTuples[] = {')', '\x85', '\x86', '\x87'};
  out += numbers.size() > 3 ? 't' : kTuples[numbers.size()];
}

void put_text(std::string& out, std::string_view text) {
  out += 'X';
  put32(out, text.size());
  out.append(text);
}

struct TorchName {
  DType dtype;
  std::string_view name;
  std::string_view storage;
};
constexpr TorchName kTorchNames[] = {{DType::float32, "float32", "FloatStorage"},
                                     {DType::bfloat16, "bfloat16", "BFloat16Storage"},
                                     {DType::int64, "int64", "LongStorage"},
                                     {DType::uint8, "uint8", "ByteStorage"}};

const TorchName& torch_name(DType dtype) {
  for (const TorchName& known : kTorchNames) {
    if (known.dtype == dtype) {
      return known;
    }
  }
  throw std::logic_error("a dtype that these files do not have");
}

void put_tensor(std::string& out, const TorchTensor& tensor, std::size_t storage) {
  out += "ctorch._utils\n_rebuild_tensor_v2\n((";
  put_text(out, "storage");
  out.append("ctorch\n").append(torch_name(tensor.dtype).storage).append("\n");
  put_text(out, std::to_string(storage));
  put_text(out, "cpu");
  put_number(out, element_count(tensor.shape).value());
  out += "tQK";
  out += '\0';
  put_tuple(out, tensor.shape);
  Shape strides = tensor.shape;
  std::uint64_t stride = 1;
  for (std::size_t axis = strides.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= tensor.shape[axis];
  }
  put_tuple(out, strides);
  out +=
      "\x89"
      "ccollections\nOrderedDict\n)RtR";
}

/// Pickles a description as Python does: what was written before is taken from the memo.
class DescriptionPickle {
 public:
  std::string out = std::string("\x80\x04", 2);

  void text(std::string_view text) {
    if (get("'" + std::string(text))) {
      return;
    }
    if (text.size() < 256) {
      out += '\x8c';
      put<std::uint8_t>(out, text.size());
      out.append(text);
    } else {
      put_text(out, text);
    }
    memoise("'" + std::string(text));
  }

  void global(std::string_view module, std::string_view name) {
    const std::string known = std::string(module).append(".").append(name);
    if (get(known)) {
      return;
    }
    text(module);
    text(name);
    out += '\x93';
    memoise(known);
  }

  void size(const Shape& shape) {
    global("torch", "Size");
    put_tuple(out, shape);
    memoise();
    out += '\x85';
    memoise();
    out += 'R';
    memoise();
  }

  void object(std::string_view module, std::string_view name) {
    global(module, name);
    out += ")\x81";
    memoise();
  }

  /// Begins an object, whose members follow.
  void begin(std::string_view module, std::string_view name) {
    object(module, name);
    out += '}';
    memoise();
    out += '(';
  }
  void end() { out += "ub"; }

  void memoise(const std::string& key = {}) {
    out += '\x94';
    if (!key.empty()) {
      memo_[key] = count_;
    }
    ++count_;
  }

 private:
  bool get(const std::string& key) {
    const auto known = memo_.find(key);
    if (known == memo_.end()) {
      return false;
    }
    out += known->second < 256 ? 'h' : 'j';
    if (known->second < 256) {
      put<std::uint8_t>(out, known->second);
    } else {
      put32(out, known->second);
    }
    return true;
  }

  std::map<std::string, std::uint64_t> memo_;
  std::uint64_t count_ = 0;
};

constexpr std::string_view kMetadata = "torch.distributed.checkpoint.metadata";

}  // namespace

void TorchArchiveWriter::write(std::string_view bytes) {
  out_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  written_ += bytes.size();
}

void TorchArchiveWriter::add(std::string_view name, std::string_view bytes) {
  Member member{"archive/" + std::string(name), written_, bytes.size(),
                formats::can_compute_crc32() ? formats::update_crc32(0, std::as_bytes(std::span(bytes))) : 0};
  const std::uint64_t unpadded = written_ + 30 + member.name.size() + 4;
  const std::uint64_t padding = (kMemberAlignment - unpadded % kMemberAlignment) % kMemberAlignment;
  std::string header("PK\x03\x04");
  put16(header, 0);
  put16(header, 0x0808);  // Sums and sizes follow the data.
  header.append(18, '\0');
  put16(header, member.name.size());
  put16(header, 4 + padding);
  header += member.name + "FB";
  put16(header, padding);
  header.append(static_cast<std::size_t>(padding), 'Z');
  write(header);
  write(bytes);
  std::string behind("PK\x07\x08");
  put32(behind, member.crc32);
  put32(behind, bytes.size());
  put32(behind, bytes.size());
  write(behind);
  members_.push_back(std::move(member));
}

std::uint64_t TorchArchiveWriter::finish() {
  add("version", "3\n");
  add(".data/serialization_id", "0123456789012345678901234567890123456789");
  const std::uint64_t begin = written_;
  for (const Member& member : members_) {
    const bool is_far = member.header >= kElsewhere;
    std::string entry("PK\x01\x02");
    put16(entry, 0);
    put16(entry, 0);
    put16(entry, 0x0808);
    put16(entry, 0);
    put32(entry, 0);
    put32(entry, member.crc32);
    put32(entry, member.bytes);
    put32(entry, member.bytes);
    put16(entry, member.name.size());
    put16(entry, is_far ? 12 : 0);
    entry.append(10, '\0');
    put32(entry, is_far ? kElsewhere : member.header);
    entry += member.name;
    if (is_far) {
      put16(entry, 1);
      put16(entry, 8);
      put64(entry, member.header);
    }
    write(entry);
  }
  const std::uint64_t end = written_;
  std::string tail("PK\x06\x06");
  put64(tail, 44);
  put16(tail, 0);
  put16(tail, 0);
  put32(tail, 0);
  put32(tail, 0);
  put64(tail, members_.size());
  put64(tail, members_.size());
  put64(tail, end - begin);
  put64(tail, begin);
  tail += "PK\x06\x07";
  put32(tail, 0);
  put64(tail, end);
  put32(tail, 1);
  tail += "PK\x05\x06";
  put32(tail, 0);
  put16(tail, members_.size());
  put16(tail, members_.size());
  put32(tail, end - begin);
  put32(tail, begin >= kElsewhere ? kElsewhere : begin);
  put16(tail, 0);
  write(tail);
  return written_;
}

std::string torch_pickle(const std::vector<TorchTensor>& tensors) {
  std::string out("\x80\x02", 2);
  if (tensors.size() == 1 && tensors[0].name.empty()) {
    put_tensor(out, tensors[0], 0);
    return out + '.';
  }
  out += "}(";
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    put_text(out, tensors[i].name);
    put_tensor(out, tensors[i], i);
  }
  return out + "u.";
}

std::uint64_t write_torch_tensor(std::ostream& out, const TorchTensor& tensor, std::string_view bytes) {
  TorchArchiveWriter archive(out);
  archive.add("data.pkl", torch_pickle({{"", tensor.dtype, tensor.shape}}));
  archive.add(".format_version", "1");
  archive.add(".storage_alignment", "64");
  archive.add("byteorder", "little");
  archive.add("data/0", bytes);
  return archive.finish();
}

DcpWriter::DcpWriter(std::filesystem::path folder) : folder_(std::move(folder)) {
  std::filesystem::create_directories(folder_);
}

void DcpWriter::add(const std::string& file, const TorchTensor& whole, const Box& box, std::string_view bytes,
                    const Shape& flattened_from) {
  const auto [known, is_new] = files_.try_emplace(file);
  auto& [out, size] = known->second;
  if (is_new) {
    out.open(folder_ / file, std::ios::binary);
    size = 0;
  }
  const std::uint64_t length = write_torch_tensor(out, {"", whole.dtype, box.extents()}, bytes);
  describe(file, whole, box, size, length);
  arrays_[numbers_.at(whole.name)].flattened_from = flattened_from;
  size += length;
}

void DcpWriter::describe(const std::string& file, const TorchTensor& whole, const Box& box,
                         std::uint64_t offset, std::uint64_t length) {
  const auto [known, is_new] = numbers_.try_emplace(whole.name, arrays_.size());
  if (is_new) {
    arrays_.push_back({whole, {}, {}});
  }
  arrays_[known->second].chunks.push_back({box, file, offset, length});
}

void DcpWriter::finish() {
  for (auto& [name, file] : files_) {
    file.first.close();
  }
  DescriptionPickle pickle;
  pickle.begin(kMetadata, "Metadata");
  pickle.text("state_dict_metadata");
  pickle.out += "}(";
  for (const Array& array : arrays_) {
    pickle.text(array.whole.name);
    pickle.begin(kMetadata, "TensorStorageMetadata");
    pickle.text("properties");
    pickle.object(kMetadata, "TensorProperties");
    pickle.out += '(';
    pickle.global("torch", torch_name(array.whole.dtype).name);
    pickle.out += "N\x89";
    pickle.global(kMetadata, "_MEM_FORMAT_ENCODING");
    pickle.out += std::string_view("K\0\x85R", 4);  // Contiguous.
    pickle.out += "\x89tb";
    pickle.text("size");
    pickle.size(array.whole.shape);
    pickle.text("chunks");
    pickle.out += "](";
    for (const Chunk& chunk : array.chunks) {
      pickle.begin(kMetadata, "ChunkStorageMetadata");
      pickle.text("offsets");
      pickle.size(chunk.box.offsets());
      pickle.text("sizes");
      pickle.size(chunk.box.extents());
      pickle.end();
    }
    pickle.out += 'e';
    pickle.end();
  }
  pickle.out += 'u';
  pickle.text("storage_data");
  pickle.out += "}(";
  for (const Array& array : arrays_) {
    for (const Chunk& chunk : array.chunks) {
      pickle.begin(kMetadata, "MetadataIndex");
      pickle.text("fqn");
      pickle.text(array.whole.name);
      pickle.text("offset");
      pickle.size(chunk.box.offsets());
      pickle.end();
      pickle.begin("torch.distributed.checkpoint.filesystem", "_StorageInfo");
      pickle.text("relative_path");
      pickle.text(chunk.file);
      pickle.text("offset");
      put_number(pickle.out, chunk.offset);
      pickle.text("length");
      put_number(pickle.out, chunk.length);
      pickle.end();
    }
  }
  pickle.out += 'u';
  pickle.text("mcore_data");
  pickle.out += "}(";
  for (const Array& array : arrays_) {
    if (!array.flattened_from.empty()) {
      pickle.text(array.whole.name);
      pickle.out += "}(";
      pickle.text("nd_reformulated_orig_global_shape");
      put_tuple(pickle.out, array.flattened_from);
      pickle.out += 'u';
    }
  }
  pickle.out += 'u';
  pickle.end();
  std::ofstream out(folder_ / ".metadata", std::ios::binary);
  out << pickle.out << '.';
}

}  // namespace cairn::testing
