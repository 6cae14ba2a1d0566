// A function that hologram exported, run by WebGPU: `const model = await load("folder/"); await model.run({x})`.

const FORMAT = 3;
const LISTS = ["buffers", "inputs", "outputs", "state", "weights", "shaders", "begin", "steps", "copies"]; // of a plan
const ASKING_MS = 3; // for results
const RESTING = 15; // calls at most that ask nothing, after some where asking was not enough

/** Loads the folder at a URL; `progress(loaded, total)` hears of the weights' bytes. Throws an Error that says why not.
 *  `state` is what arguments of that name begin with: arrays by name, or a model whose memory they share. */
export async function load(url, { progress = () => {}, device, state = {} } = {}) {
  const folder = new URL(url.endsWith("/") ? url : `${url}/`, globalThis.location?.href);
  if (state instanceof Model) device ??= state.device;
  const adapter = device ? undefined : await found();
  const software = (device?.adapterInfo ?? adapter?.info)?.isFallbackAdapter;
  const plan = new URL(software ? "software.json" : "program.json", folder);
  const program = await read(plan);
  device ??= await opened(adapter, program);
  const texts = new Map(
    await Promise.all(program.shaders.map(async (name) => [name, await (await fetched(new URL(name, folder))).text()])),
  );
  const weights = await downloaded(new URL("weights.bin", folder), program, progress);
  return await Model.made(device, program, texts, weights, state);
}

async function fetched(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status} ${response.statusText}`);
  return response;
}

async function read(plan) {
  const response = await fetched(plan);
  const program = await response.json().catch((error) => {
    throw new Error(`${plan}: it is not whole: ${error.message}`);
  });
  if (program?.format !== FORMAT) {
    throw new Error(`${plan}: format ${FORMAT} is needed, got ${program?.format}: export it anew`);
  }
  const lacks = LISTS.find((name) => !Array.isArray(program[name]));
  if (lacks) throw new Error(`${plan}: it has no ${lacks}: export it anew`);
  return program;
}

async function found() {
  if (!globalThis.navigator?.gpu) throw new Error("this browser has no WebGPU, or the page is not from https");
  const adapter = await navigator.gpu.requestAdapter();
  if (!adapter) throw new Error("this machine has no adapter for WebGPU");
  return adapter;
}

async function opened(adapter, program) {
  const requiredLimits = {};
  for (const [name, wanted] of Object.entries(program.limits)) {
    if (wanted > adapter.limits[name]) {
      throw new Error(`this adapter has ${name} ${adapter.limits[name]}, the program needs ${wanted}`);
    }
    requiredLimits[name] = wanted;
  }
  return adapter.requestDevice({ requiredLimits });
}

async function downloaded(url, program, progress) {
  const total = program.weightsBytes;
  const bytes = new Uint8Array(total);
  if (!total) return bytes;
  let loaded = 0;
  const reader = (await fetched(url)).body.getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    if (loaded + part.value.length > total) throw new Error(`${url}: ${total} bytes are needed, there are more`);
    bytes.set(part.value, loaded);
    progress((loaded += part.value.length), total);
  }
  if (loaded !== total) throw new Error(`${url}: ${total} bytes are needed, got ${loaded}`);
  if (globalThis.crypto?.subtle) {
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    const hex = Array.from(digest, (b) => b.toString(16).padStart(2, "0")).join("");
    if (hex !== program.weightsSha256) throw new Error(`${url}: its checksum is another: it was changed`);
  }
  return bytes;
}

/** A program on a device. `inputs` and `outputs` say what `run` takes and gives: names, dtypes, shapes; `state` what
 *  stays on the device from call to call. */
export class Model {
  static async made(device, program, texts, weights, state) {
    const model = new Model();
    const { name, inputs, outputs, copies } = program;
    Object.assign(model, { device, name, inputs, outputs, state: program.state, copies });
    const { STORAGE, COPY_DST, COPY_SRC, UNIFORM, MAP_READ } = GPUBufferUsage;
    const shared = state instanceof Model ? model.#taken(state) : new Map();
    model.buffers = program.buffers.map(
      (size, k) => shared.get(k) ?? device.createBuffer({ size, usage: STORAGE | COPY_DST | COPY_SRC }),
    );
    for (const { buffer, at, bytes } of program.weights) {
      if (!shared.has(buffer)) device.queue.writeBuffer(model.buffers[buffer], 0, weights, at, bytes);
    }
    if (!(state instanceof Model)) model.set(state);
    const layouts = new Map(); // of bind groups, by how buffers are bound
    const layoutOf = (step) => {
      const types = [...step.writable.map((w) => (w ? "storage" : "read-only-storage"))];
      if (step.parameters) types.push("uniform");
      const key = types.join();
      if (!layouts.has(key)) {
        const entries = types.map((type, binding) => ({ binding, visibility: GPUShaderStage.COMPUTE, buffer: { type } }));
        layouts.set(key, device.createBindGroupLayout({ entries }));
      }
      return layouts.get(key);
    };
    const pipelines = new Map();
    const prepared = (steps) => Promise.all(
      steps.map(async (step) => {
        const layout = layoutOf(step);
        const key = `${step.shader} ${step.writable}`;
        if (!pipelines.has(key)) {
          const module = device.createShaderModule({ code: texts.get(step.shader) });
          const bindGroupLayouts = [layout];
          pipelines.set(
            key,
            device.createComputePipelineAsync({
              layout: device.createPipelineLayout({ bindGroupLayouts }),
              compute: { module, entryPoint: step.entry },
            }),
          );
        }
        const entries = step.bindings.map(([buffer, offset, size], binding) => ({
          binding,
          resource: { buffer: model.buffers[buffer], offset, size },
        }));
        if (step.parameters) {
          const words = new Uint32Array(step.parameters);
          const buffer = device.createBuffer({ size: Math.ceil(words.byteLength / 16) * 16, usage: UNIFORM | COPY_DST });
          device.queue.writeBuffer(buffer, 0, words);
          entries.push({ binding: entries.length, resource: { buffer } });
        }
        const group = device.createBindGroup({ layout, entries });
        return { pipeline: await pipelines.get(key), group, groups: step.groups };
      }),
    );
    const begin = await prepared(program.begin); // what is made of weights alone, once
    model.steps = await prepared(program.steps);
    const encoder = device.createCommandEncoder();
    encode(encoder, begin);
    device.queue.submit([encoder.finish()]);
    model.readers = program.outputs.map(({ bytes }) =>
      device.createBuffer({ size: padded(bytes), usage: MAP_READ | COPY_DST }),
    );
    model.last = Promise.resolve();
    model.resting = model.rested = 0;
    return model;
  }

  /** The buffers of another model's state, by the numbers that they have here. */
  #taken(other) {
    return new Map(
      this.state.map(({ name, dtype, shape, buffer }) => {
        const theirs = other.state.find((each) => each.name === name);
        if (theirs?.dtype !== dtype || String(theirs.shape) !== String(shape)) {
          const got = theirs ? `${theirs.dtype} of [${theirs.shape}]` : "nothing";
          throw new Error(`${this.name}: the state ${name} must be ${dtype} of [${shape}], ${other.name} has ${got}`);
        }
        return [buffer, other.buffers[theirs.buffer]];
      }),
    );
  }

  /** Writes parts of the state anew: typed arrays by name. */
  set(given) {
    for (const name of Object.keys(given)) {
      const known = this.state.find((each) => each.name === name);
      if (!known) throw new Error(`${this.name}: its state has no ${name}`);
      this.#write(known, given[name]);
    }
  }

  #write({ name, dtype, shape, bytes, buffer }, array) {
    const kind = ARRAYS[dtype];
    if (!(array instanceof kind) || array.byteLength !== bytes) {
      const got = array === undefined ? "nothing" : `${array.constructor.name} of ${array.length}`;
      throw new Error(`${this.name}: ${name} must be a ${kind.name} of [${shape}], got ${got}`);
    }
    let data = new Uint8Array(array.buffer, array.byteOffset, bytes);
    if (bytes % 4) {
      data = new Uint8Array(padded(bytes));
      data.set(new Uint8Array(array.buffer, array.byteOffset, bytes));
    }
    this.device.queue.writeBuffer(this.buffers[buffer], 0, data);
  }

  /** The outputs, by name, for typed arrays by the names of the inputs. Calls run one after the other. */
  async run(given) {
    const call = this.last.then(() => this.#run(given));
    this.last = call.catch(() => {});
    return call;
  }

  async #run(given) {
    const { device } = this;
    for (const input of this.inputs) this.#write(input, given[input.name]);
    const encoder = device.createCommandEncoder();
    encode(encoder, this.steps);
    for (const [from, to, bytes] of this.copies) {
      encoder.copyBufferToBuffer(this.buffers[from], 0, this.buffers[to], 0, bytes);
    }
    this.outputs.forEach(({ buffer, bytes }, k) => {
      encoder.copyBufferToBuffer(this.buffers[buffer], 0, this.readers[k], 0, padded(bytes));
    });
    device.queue.submit([encoder.finish()]);
    await this.#mapped();
    const results = {};
    this.outputs.forEach(({ name, dtype, bytes }, k) => {
      results[name] = new ARRAYS[dtype](this.readers[k].getMappedRange().slice(0, bytes));
      this.readers[k].unmap();
    });
    return results;
  }

  /** Waits for the results. Chromium looks every 2 ms whether work is done, and whenever it is asked something: a short
   *  step asks for its errors, again and again. Longer ones, or cores that others keep busy, gain nothing by that. */
  async #mapped() {
    let waiting = true;
    const mapped = Promise.all(this.readers.map((reader) => reader.mapAsync(GPUMapMode.READ)));
    const over = mapped.catch(() => {}).then(() => (waiting = false));
    const until = this.resting ? 0 : performance.now() + ASKING_MS;
    while (waiting && performance.now() < until) {
      this.device.pushErrorScope("validation");
      await Promise.race([over, this.device.popErrorScope().catch(() => {}).then(later)]);
    }
    if (this.resting) this.resting--;
    else this.resting = this.rested = waiting ? Math.min(2 * this.rested + 1, RESTING) : 0;
    await mapped;
  }
}

/** After what the page has to do meanwhile. */
const later = () => new Promise((resolve) => setTimeout(resolve));

/** Steps as one compute pass. */
function encode(encoder, steps) {
  const pass = encoder.beginComputePass();
  for (const { pipeline, group, groups } of steps) {
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    pass.dispatchWorkgroups(...groups);
  }
  pass.end();
}

const padded = (bytes) => Math.max(16, Math.ceil(bytes / 16) * 16);

// What holds the elements of a dtype; floats of 16 bits as their bits, complex numbers as pairs.
const ARRAYS = {
  f32: Float32Array, f16: Uint16Array, bf16: Uint16Array, c64: Float32Array, bool: Uint8Array,
  i8: Int8Array, i16: Int16Array, i32: Int32Array, i64: BigInt64Array,
  u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, u64: BigUint64Array,
};
