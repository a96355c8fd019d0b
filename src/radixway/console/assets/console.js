// Keys of the console: `g` and a page's letter, `/` for the search, `?` for the list. And what is kept in cookies.
(() => {
  const typing = (target) =>
    target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName) || target.closest(".cm-editor");
  const MAX_SENT_CHARS = 990_000; // NiceGUI sends no message of a million, and says so
  let going = 0;

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    if (going && Date.now() - going < 1500) {
      going = 0;
      const link = document.querySelector(`.rw-nav a[data-key="${CSS.escape(event.key)}"]`);
      if (link) {
        event.preventDefault();
        link.click();
      }
      return;
    }
    if (event.key === "g") going = Date.now();
    else if (event.key === "/") {
      const search = document.querySelector("[data-search] input, input[data-search]");
      if (search) {
        event.preventDefault();
        search.focus();
        search.select();
      }
    } else if (event.key === "?") {
      event.preventDefault();
      document.getElementById("rw-keys")?.showModal();
    }
  });

  // A page whose connection is refused asks whether somebody is signed in still: what it shows is not for others.
  const leave = async () => {
    const asked = { method: "HEAD", redirect: "manual", headers: { accept: "text/html" } };
    const answer = await fetch(location.href, asked).catch(() => null);
    if (answer?.type === "opaqueredirect") location.reload();
  };
  const waiting = setInterval(() => {
    if (!window.socket) return;
    clearInterval(waiting);
    window.socket.on("connect_error", leave);
  }, 200);

  // The editor of rules takes Enter as a plain new line: indented by itself, lines that are typed with their
  // own spaces would stand deeper with each one, and on touch keyboards the key itself is dropped.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    const box = event.target.closest?.(".cm-content")?.closest(".rw-editor");
    if (!box || event.target.contentEditable !== "true") return;
    const editor = getElement(box.id.slice(1)).editor;
    event.preventDefault();
    event.stopImmediatePropagation();
    editor.dispatch(editor.state.replaceSelection("\n"), { scrollIntoView: true, userEvent: "input" });
  }, true);

  const kept = new Map();
  const ask_about_edits = (event) => {
    for (const [id, saved] of kept) if (getElement(id)?.editor?.state.doc.toString() !== saved) event.preventDefault();
  };

  window.radixway = {
    /** Remember a preference for a year, and show the page as it says. */
    prefer(name, value) {
      document.cookie = `${name}=${value}; Path=/console; Max-Age=31536000; SameSite=Strict`;
      location.reload();
    },
    /** New points for each line of a chart; those before `since` (milliseconds) go. */
    chart(id, lines, since) {
      const chart = getElement(id)?.chart;
      if (!chart) return;
      const series = chart.getOption().series.map((line, number) => ({
        data: [...line.data.filter((point) => point[0] >= since), ...lines[number]],
      }));
      const last = Math.max(...series.flatMap((line) => line.data.slice(-1).map((point) => point[0])));
      const first = Math.min(...series.flatMap((line) => line.data.slice(0, 1).map((point) => point[0])));
      chart.setOption({ series, xAxis: { min: first, max: last } });
    },
    /** The text editor in the element of that number. */
    editor: (id) => getElement(id).editor,
    /** Have the browser ask before a page is left whose editor holds anything but `saved`. */
    ask_before_leaving(id, saved) {
      if (!kept.size) addEventListener("beforeunload", ask_about_edits);
      kept.set(id, saved);
    },
    /** Show the playground, which has `text` answered: no address holds it, and it is answered once. */
    ask(text) {
      sessionStorage.setItem("radixway.prompt", text);
      location.href = "/console/playground";
    },
    /** Tell the server what `ask` was given on the page before, if anything. */
    tell_prompt() {
      const text = sessionStorage.getItem("radixway.prompt");
      sessionStorage.removeItem("radixway.prompt");
      if (text) emitEvent("rw-prompt", text);
    },
    /** Empty the text field of that number, and send what stood there; it stays where it cannot be sent. */
    send_text(id, emit) {
      const field = getElement(id);
      const text = field.inputValue ?? "";
      if (!window.socket.connected) return;
      if (JSON.stringify(text).length < MAX_SENT_CHARS) field.inputValue = "";
      emit(text);
    },
    /** Put back what was taken, before what was typed since. */
    put_back_text(id, text) {
      const field = getElement(id);
      field.inputValue = [text, field.inputValue].filter(Boolean).join("\n");
    },
    /** A form of one button. */
    post(path) {
      const form = Object.assign(document.createElement("form"), { method: "post", action: path });
      document.body.append(form);
      form.submit();
    },
  };
})();
