// GGUF files: what is in one, and its weights as hologram's programs read them.

const MAGIC = 0x46554747; // "GGUF"
// Of kinds of weights: the number in files, the weights and bytes of a block, and how many bytes of it are scales, which
// are ahead of the codes. Minima are added here and subtracted in hologram's programs.
const KINDS = {
  F32: { number: 0, size: 1, bytes: 4 },
  Q4_0: { number: 2, size: 32, bytes: 18, scales: 2 },
  Q4_1: { number: 3, size: 32, bytes: 20, scales: 4, minima: true },
  Q8_0: { number: 8, size: 32, bytes: 34, scales: 2 },
  IQ4_NL: { number: 20, size: 32, bytes: 18, scales: 2 },
};
const FIRST = 1 << 22; // bytes that are read of a file to see what it has

/** What a Blob or File says of itself: `metadata` by key, and of `tensors`, by name, their kind, shape and place. */
export async function opened(blob) {
  for (let size = FIRST; ; size *= 2) {
    try {
      return { blob, ...parsed(new Reader(await blob.slice(0, size).arrayBuffer())) };
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      if (size >= blob.size) throw new Error("the model's file is cut short");
    }
  }
}

function parsed(reader) {
  if (reader.u32() !== MAGIC) throw new Error("this is no GGUF file");
  const version = reader.u32();
  if (version !== 2 && version !== 3) throw new Error(`GGUF's versions 2 and 3 are known, the file has ${version}`);
  const [count, keys] = [reader.u64(), reader.u64()];
  const metadata = {};
  for (let k = 0; k < keys; k++) metadata[reader.text()] = reader.value(reader.u32());
  const tensors = {};
  for (let k = 0; k < count; k++) {
    const name = reader.text();
    const shape = Array.from({ length: reader.u32() }, () => reader.u64()).reverse();
    tensors[name] = { shape, number: reader.u32(), at: reader.u64() };
  }
  const alignment = metadata["general.alignment"] ?? 32;
  return { metadata, tensors, data: Math.ceil(reader.at / alignment) * alignment };
}

/** Reads values one after the other; a RangeError says that there are too few bytes. */
class Reader {
  constructor(buffer) {
    this.view = new DataView(buffer);
    this.at = 0;
    const number = (method, bytes) => () => {
      const value = this.view[method](this.at, true);
      this.at += bytes;
      return typeof value === "bigint" ? Number(value) : value;
    };
    this.u32 = number("getUint32", 4);
    this.u64 = number("getBigUint64", 8);
    const bool = number("getUint8", 1);
    this.kinds = [
      number("getUint8", 1), number("getInt8", 1), number("getUint16", 2), number("getInt16", 2),
      this.u32, number("getInt32", 4), number("getFloat32", 4), () => bool() !== 0,
      () => this.text(), () => this.array(), this.u64, number("getBigInt64", 8), number("getFloat64", 8),
    ];
  }

  value(kind) {
    if (!this.kinds[kind]) throw new Error(`the model's file has a value of a kind that is not known, ${kind}`);
    return this.kinds[kind]();
  }

  text() {
    const bytes = new Uint8Array(this.view.buffer, this.at + 8, this.u64());
    this.at += bytes.length;
    return new TextDecoder().decode(bytes);
  }

  array() {
    const kind = this.u32();
    return Array.from({ length: this.u64() }, () => this.value(kind));
  }
}

/** The planes of a weight that some tensors are, one below the other: `{codes, scales}`, or `{numbers}` of floats.
 *  `heads` says which rows of queries and keys lie together. */
export async function packed(file, { kind, columns, tensors }, heads) {
  const known = KINDS[kind];
  const rowBytes = (columns / known.size) * known.bytes;
  const parts = [];
  for (const name of tensors) {
    const { shape, number, at } = file.tensors[name] ?? {};
    if (number !== known.number || shape.at(-1) !== columns) {
      throw new Error(`${name} must be ${kind} with rows of ${columns}: this is another model's file`);
    }
    const rows = shape.reduce((a, b) => a * b) / columns;
    const first = file.data + at;
    const bytes = new Uint8Array(await file.blob.slice(first, first + rows * rowBytes).arrayBuffer());
    if (bytes.length !== rows * rowBytes) throw new Error("the model's file is cut short");
    parts.push(heads.paired && /attn_[qk]\.weight$/.test(name) ? turned(bytes, rowBytes, heads) : bytes);
  }
  const bytes = joined(parts);
  return known.scales ? planes(bytes, known) : { numbers: new Float32Array(bytes.buffer) };
}

function joined(parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Rows of heads, of which those that are rotated together are neighbours, so that they lie a half apart. */
function turned(bytes, rowBytes, { size, rotated }) {
  const order = [];
  for (const first of [0, 1]) for (let k = first; k < rotated; k += 2) order.push(k);
  for (let k = rotated; k < size; k++) order.push(k);
  const made = new Uint8Array(bytes.length);
  for (let row = 0; row * rowBytes < bytes.length; row++) {
    const from = (row - (row % size) + order[row % size]) * rowBytes;
    made.set(bytes.subarray(from, from + rowBytes), row * rowBytes);
  }
  return made;
}

function planes(bytes, { bytes: blockBytes, scales, minima }) {
  const blocks = bytes.length / blockBytes;
  const codeBytes = blockBytes - scales;
  const made = { codes: new Uint8Array(blocks * codeBytes), scales: new Uint8Array(blocks * scales) };
  for (let k = 0; k < blocks; k++) {
    const block = bytes.subarray(k * blockBytes, (k + 1) * blockBytes);
    made.scales.set(block.subarray(0, scales), k * scales);
    made.codes.set(block.subarray(scales), k * codeBytes);
    if (minima) made.scales[k * scales + 3] ^= 0x80; // the sign of the second half
  }
  return { codes: new Uint32Array(made.codes.buffer), scales: new Uint16Array(made.scales.buffer) };
}
