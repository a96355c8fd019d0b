/* Browsers start no workers from files. There, a worker's script runs in a hidden frame, so that search works in a
   folder of pages as it does behind a server. The search's script knows it by the name IFrameWorker. */
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      this.onmessage = null
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inside = this.frame.contentWindow
      inside.postMessage = data => this.tell(data)
      const script = inside.document.createElement("script")
      script.src = new URL(url, location.href)
      this.ready = new Promise(resolve => { script.onload = resolve })
      inside.document.body.append(script)
    }

    tell(data) {
      const event = new MessageEvent("message", { data })
      this.dispatchEvent(event)
      this.onmessage?.(event)
    }

    postMessage(data) {
      const inside = this.frame.contentWindow
      this.ready.then(() => inside.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      this.frame.remove()
    }
  }
  window.Worker = window.IFrameWorker
}
