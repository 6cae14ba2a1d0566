// A language model in a page: `const chat = await open(".", {progress}); for await (const text of chat.answer("Hi"))`.

import { opened, packed } from "./gguf.js";
import { load } from "./step/model.js";
import { Tokenizer } from "./tokenizer.js";

/** What a folder says of its model: its name, its file if that is in the folder, and so on. */
export async function described(folder) {
  return (await fetched(`${folder}/page.json`)).json();
}

/** The model of a folder, with weights of `file`, or of the file that the folder holds. `progress(what, done, total)`
 *  hears how far it is. Throws an Error that says what is wrong. */
export async function open(folder, { file, progress = () => {} } = {}) {
  const about = await described(folder);
  const began = performance.now();
  // Both programs, of which the second uses the memory of the first; a device is asked for before anything is loaded.
  progress("shaders", 0, 2);
  const prompt = await load(`${folder}/prompt`);
  progress("shaders", 1, 2);
  const step = await load(`${folder}/step`, { state: prompt });
  const blob = file ?? (await downloaded(`${folder}/${about.file}`, about.bytes, progress));
  await check(blob, about);
  const model = await opened(blob);
  const weights = new Map(); // the state's names by what they are made of
  for (const [name, recipe] of Object.entries(about.weights)) {
    const key = JSON.stringify(recipe);
    weights.set(key, [...(weights.get(key) ?? []), name]);
  }
  let done = 0;
  for (const [key, names] of weights) {
    const planes = await packed(model, JSON.parse(key), about.heads);
    for (const name of names) prompt.set({ [name]: planes[name.split(".").at(-1)] ?? planes.numbers });
    progress("weights", ++done, weights.size);
  }
  await prompt.device.queue.onSubmittedWorkDone();
  return new Chat(about, prompt, step, new Tokenizer(model.metadata, about.talk), performance.now() - began);
}

/** A conversation. `known` tokens of it are computed, and their keys and values on the device; some are `left`. */
class Chat {
  constructor(about, prompt, step, tokenizer, openedMs) {
    Object.assign(this, { about, prompt, step, tokenizer, openedMs, known: 0, left: [] });
    this.ends = new Set(about.talk.ends);
  }

  /** Begins anew. */
  forget() {
    this.known = 0;
    this.left = [];
  }

  /** The answer to what is said, as it comes: the likeliest token each time. */
  async *answer(said, limit = Infinity) {
    const read = this.tokenizer.reader();
    for await (const token of this.tokens(this.#asked(said), limit)) yield read(token);
  }

  #asked(said) {
    const { before, between, behind } = this.about.talk;
    return this.tokenizer.encode((this.known ? between : before) + said + behind);
  }

  /** The tokens that follow some tokens, up to one that ends texts. */
  async *tokens(further, limit = Infinity) {
    const { context, piece } = this.about;
    const given = [...this.left, ...further];
    if (this.known + given.length + piece > context) {
      throw new Error(`this conversation is too long for the page's ${context} tokens: begin a new one`);
    }
    const last = given.length - 1;
    for (let at = 0; at < last; at += piece) {
      const tokens = new Int32Array(piece); // those behind the last are hidden until they are written over
      tokens.set(given.slice(at, Math.min(at + piece, last)));
      await this.prompt.run({ tokens, known: Int32Array.of(this.known + at) });
    }
    this.known += last;
    this.left = [given[last]];
    for (let count = 0; count < limit && this.known < context; count++) {
      const given = { tokens: Int32Array.from(this.left), known: Int32Array.of(this.known) };
      const [token] = (await this.step.run(given)).token;
      this.known++;
      this.left = this.ends.has(token) ? [] : [token]; // what ends a text is part of what is between texts
      if (!this.left.length) return;
      yield token;
    }
  }
}

async function fetched(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status} ${response.statusText}`);
  return response;
}

async function downloaded(url, total, progress) {
  const parts = [];
  let loaded = 0;
  const reader = (await fetched(url)).body.getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    parts.push(part.value);
    progress("model", (loaded += part.value.length), total);
  }
  return new Blob(parts);
}

/** Refuses a file that is not the one that the page was made for. */
async function check(blob, { bytes, sha256, model }) {
  if (blob.size < bytes) throw new Error(`the model's file is cut short: it has ${blob.size} of ${bytes} bytes`);
  if (globalThis.crypto?.subtle) {
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", await blob.arrayBuffer()));
    const hex = Array.from(digest, (b) => b.toString(16).padStart(2, "0")).join("");
    if (hex !== sha256) throw new Error(`this is not the file of ${model} that the page was made for`);
  }
}
