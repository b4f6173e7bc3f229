;; A session in Emacs with editors/emacs/espalier.el: diagnostics, hover, a code action, completion.
;; The file to edit is in the environment variable FILE. The first thing that fails ends Emacs.
(setq debug-on-error t
      ;; The first of several answers is the one that the user selects.
      completing-read-function (lambda (_prompt collection &rest _) (car (all-completions "" collection))))

(defun await (what condition)
  "Wait until CONDITION returns a value. WHAT describes it."
  (let ((end (+ (float-time) 60)) value)
    (while (and (not (setq value (funcall condition))) (< (float-time) end))
      (accept-process-output nil 0.02))
    (unless value
      (message "FAILED: %s: %s" what (buffer-string))
      (kill-emacs 1))
    value))

(defun diagnosed (text)
  "Report whether a diagnostic contains TEXT."
  (seq-some (lambda (d) (string-match-p (regexp-quote text) (flymake-diagnostic-text d))) (flymake-diagnostics)))

(find-file (getenv "FILE"))
(run-hooks 'post-command-hook) ; Emacs runs it after each command, and eglot-ensure waits for it
(await "the server" #'eglot-current-server)
(await "a diagnostic of size" (lambda () (diagnosed "validation/minimum")))
(await "a diagnostic of colour" (lambda () (diagnosed "unknown-field")))

(goto-char (point-min))
(search-forward "siz")
(let (documentation)
  (eglot-hover-eldoc-function (lambda (text &rest _) (setq documentation text)))
  (await "the documentation of size" (lambda () (and documentation (string-match-p "millimetres" documentation)))))

(search-forward "colou")
(setq last-nonmenu-event ?x) ; a key, not the mouse
(eglot-code-actions (line-beginning-position) (line-end-position) "quickfix" t)
(await "the field with another name" (lambda () (string-match-p "^  color: red$" (buffer-string))))
(save-buffer)
(await "no diagnostic of colour" (lambda () (not (diagnosed "unknown-field"))))

(goto-char (point-min))
(search-forward "color: red")
(delete-char -3)
(insert "gr")
(completion-at-point)
(await "the completed value" (lambda () (string-match-p "^  color: green$" (buffer-string))))

(set-buffer-modified-p nil)
(eglot-shutdown (eglot-current-server))
(message "PASSED")
