// From file:// a browser starts no worker. Search gets one in an iframe then: a script is allowed there.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.documentElement.append(this.frame)
      const inner = this.frame.contentWindow
      // What the script calls as a worker does; answers come back here, and as late as a worker's.
      inner.postMessage = data => setTimeout(() => {
        const event = new MessageEvent("message", { data: structuredClone(data) })
        this.dispatchEvent(event)
        if (this.onmessage) this.onmessage(event)
      })
      this.ready = new Promise((done, failed) => {
        const script = inner.document.createElement("script")
        script.src = address
        script.onload = done
        script.onerror = failed
        inner.document.head.append(script)
      })
      this.ready.catch(() => this.onerror && this.onerror(new Event("error")))
    }

    postMessage(data) {
      this.ready.then(() => {
        const inner = this.frame.contentWindow
        const event = new inner.MessageEvent("message", { data: structuredClone(data) })
        setTimeout(() => inner.dispatchEvent(event))
      })
    }

    terminate() {
      this.frame.remove()
    }
  }
}
