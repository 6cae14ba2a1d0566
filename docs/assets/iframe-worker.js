// A page that is opened from a folder may start no worker: the search's runs in a frame there.
if (location.protocol === "file:") {
  const load = (page, source) =>
    new Promise((done, failed) => {
      const script = page.createElement("script")
      script.src = source
      script.onload = done
      script.onerror = failed
      page.body.append(script)
    })
  window.Worker = class extends EventTarget {
    constructor(source) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.inside = frame.contentWindow
      this.inside.importScripts = (...sources) =>
        sources.reduce((before, each) => before.then(() => load(this.inside.document, each)), Promise.resolve())
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      this.ready = load(this.inside.document, source)
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
    }
  }
}
