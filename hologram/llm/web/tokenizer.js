// Text as tokens and back: pairs of bytes, merged in the order that a GGUF file gives (Sennrich et al. 2016).

/** `metadata` is a GGUF file's, `talk` says how a text is cut before pairs are merged, and which tokens are special. */
export class Tokenizer {
  constructor(metadata, talk) {
    this.tokens = metadata["tokenizer.ggml.tokens"];
    this.numbers = new Map(this.tokens.map((text, k) => [text, k]));
    this.ranks = new Map(metadata["tokenizer.ggml.merges"].map((pair, k) => [pair, k]));
    this.talk = talk;
    this.hidden = new Set(talk.hidden);
    const special = talk.special.map((k) => this.tokens[k]).sort((a, b) => b.length - a.length);
    this.special = new Set(special);
    const escaped = special.map((text) => text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
    this.whole = special.length ? new RegExp(`(${escaped.join("|")})`, "u") : null;
    this.cut = new RegExp(talk.cut, "gu");
    this.known = new Map(); // words that were merged before
  }

  /** The tokens of a text. */
  encode(text) {
    if (this.talk.nfc) text = text.normalize("NFC");
    const parts = this.whole ? text.split(this.whole) : [text];
    return parts.flatMap((part) => (this.special.has(part) ? [this.numbers.get(part)] : this.#ordinary(part)));
  }

  #ordinary(text) {
    const pieces = this.talk.digits ? text.split(/(\p{N})/u) : [text];
    return pieces.flatMap((piece) => {
      const words = [];
      let end = 0;
      for (const { 0: word, index } of piece.matchAll(this.cut)) {
        words.push(piece.slice(end, index), word);
        end = index + word.length;
      }
      words.push(piece.slice(end));
      return words.filter(Boolean).flatMap((word) => this.#merged(word));
    });
  }

  /** A word's tokens: of the pairs that are neighbours, the one that was learnt first becomes one, and so on. */
  #merged(word) {
    if (!this.known.has(word)) {
      const letters = Array.from(new TextEncoder().encode(word), (byte) => LETTERS[byte]);
      const parts = letters.filter((letter) => this.numbers.has(letter)); // others are left out
      for (;;) {
        const ranks = parts.slice(1).map((part, k) => this.ranks.get(`${parts[k]} ${part}`) ?? Infinity);
        const best = Math.min(...ranks);
        if (best === Infinity) break;
        const k = ranks.indexOf(best);
        parts.splice(k, 2, parts[k] + parts[k + 1]);
      }
      this.known.set(word, parts.map((part) => this.numbers.get(part)));
    }
    return this.known.get(word);
  }

  /** A function that gives the text that a further token makes certain, which may be none. */
  reader() {
    const decoder = new TextDecoder();
    return (token) => {
      if (this.hidden.has(token)) return "";
      const text = this.tokens[token];
      if (this.special.has(text)) return text;
      return decoder.decode(Uint8Array.from(text, (letter) => BYTES.get(letter)), { stream: true });
    };
  }
}

// Bytes as letters that can be seen, as GPT-2 has them: those that are letters already, and the others behind 255.
const LETTERS = [];
for (let byte = 0, more = 256; byte < 256; byte++) {
  const seen = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  LETTERS.push(String.fromCharCode(seen ? byte : more++));
}
const BYTES = new Map(LETTERS.map((letter, byte) => [letter, byte]));
