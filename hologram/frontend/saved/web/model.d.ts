/** The elements of a tensor in row-major order; which kind a dtype has says model.js. */
export type Elements =
  | Float32Array | Int8Array | Int16Array | Int32Array | BigInt64Array
  | Uint8Array | Uint16Array | Uint32Array | BigUint64Array;

export interface Described {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly bytes: number;
}

export interface Model {
  readonly name: string;
  readonly inputs: readonly Described[];
  readonly outputs: readonly Described[];
  /** What stays on the device from call to call. */
  readonly state: readonly Described[];
  /** The outputs, by name, for the elements of each input, by name. */
  run(given: Record<string, Elements>): Promise<Record<string, Elements>>;
  /** Writes parts of the state anew. */
  set(given: Record<string, Elements>): void;
}

export interface Options {
  /** Hears how many bytes of the weights are there. */
  progress?: (loaded: number, total: number) => void;
  /** A device of the page's own; else one of the default adapter. */
  device?: GPUDevice;
  /** What the state begins with, by name; or a model whose state is shared, on its device. */
  state?: Record<string, Elements> | Model;
}

/** Loads the folder that hg.export_web wrote. */
export function load(url: string, options?: Options): Promise<Model>;
