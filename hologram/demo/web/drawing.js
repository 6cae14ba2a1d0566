// Strokes on a canvas, and what of them a classifier sees: the picture's own frame, shrunk to a few pixels.

const WIDTH = 1 / 11; // of a stroke, beside the canvas

/** A canvas that is drawn on with a finger, a pen or a mouse; "change" says that there is another stroke, or none. */
export class Drawing extends EventTarget {
  constructor(canvas) {
    super();
    this.canvas = canvas;
    this.pen = canvas.getContext("2d", { willReadFrequently: true });
    const ink = getComputedStyle(canvas).color;
    Object.assign(this.pen, { lineWidth: canvas.width * WIDTH, lineCap: "round", lineJoin: "round", strokeStyle: ink });
    canvas.addEventListener("pointerdown", (event) => {
      this.at = this.#place(event);
      this.#stroke(event);
    });
    addEventListener("pointermove", (event) => this.at && this.#stroke(event)); // out of the canvas too
    for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => (this.at = null));
  }

  #place(event) {
    const frame = this.canvas.getBoundingClientRect();
    const scale = this.canvas.width / frame.width;
    return [(event.clientX - frame.left) * scale, (event.clientY - frame.top) * scale];
  }

  #stroke(event) {
    const to = this.#place(event);
    this.pen.beginPath();
    this.pen.moveTo(...this.at);
    this.pen.lineTo(...to);
    this.pen.stroke();
    this.at = to;
    this.dispatchEvent(new Event("change"));
  }

  clear() {
    this.pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.dispatchEvent(new Event("change"));
  }
}

/** The picture as `side` x `side` numbers of 0 to 1: what is drawn fills it from edge to edge, as in the digits that
 *  were learnt, and each pixel is the share of it that is ink. Null where nothing is drawn. */
export function pixels(canvas, side) {
  const { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  const ink = (x, y) => data[4 * (y * width + x) + 3] > 127;
  let [left, top, right, bottom] = [width, height, -1, -1];
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      if (!ink(x, y)) continue;
      [left, right] = [Math.min(left, x), Math.max(right, x)];
      [top, bottom] = [Math.min(top, y), Math.max(bottom, y)];
    }
  }
  if (right < 0) return null;
  const size = Math.max(right - left, bottom - top) + 1; // of a square frame around it
  const [x0, y0] = [(left + right + 1 - size) / 2, (top + bottom + 1 - size) / 2];
  const [image, fine] = [new Float32Array(side * side), 8 * side]; // points that are looked at on each side
  for (let y = 0; y < fine; y++) {
    for (let x = 0; x < fine; x++) {
      const [px, py] = [Math.floor(x0 + ((x + 0.5) * size) / fine), Math.floor(y0 + ((y + 0.5) * size) / fine)];
      const inside = px >= 0 && px < width && py >= 0 && py < height;
      if (inside && ink(px, py)) image[(y >> 3) * side + (x >> 3)] += 1 / 64;
    }
  }
  return image;
}

/** Shows what `pixels` gave on a canvas of that many pixels. */
export function shown(canvas, image, side) {
  const pen = canvas.getContext("2d");
  pen.clearRect(0, 0, side, side);
  pen.fillStyle = getComputedStyle(canvas).color;
  image?.forEach((value, k) => {
    pen.globalAlpha = value;
    pen.fillRect(k % side, Math.floor(k / side), 1, 1);
  });
}
